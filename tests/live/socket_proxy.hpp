// Stands between the processes of a live run: takes the place of a Unix-domain socket in the run's
// folder as soon as it is there, before anybody has connected, and passes bytes on until it is told
// to cut the connections or to pass nothing on.
#pragma once

#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/files/socket_address.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::live {

/// Proxy of a Unix-domain socket that can cut and stop connections.
class SocketProxy {
 public:
  /// Waits for the socket `name` in the folder of the next run that begins.
  explicit SocketProxy(std::string name)
      : name_(std::move(name)), watch_(inotify_init1(IN_NONBLOCK)) {
    inotify_add_watch(watch_, run_parent().c_str(), IN_CREATE | IN_ONLYDIR);
    thread_ = std::jthread([this](const std::stop_token& stop) { forward_bytes(stop); });
  }
  ~SocketProxy() {
    thread_.request_stop();
    thread_.join();
    for (const Connection& each : connections_) close_both(each);
    if (listener_ >= 0) close(listener_);
    close(watch_);
  }

  /// Connections that have been passed on so far.
  std::size_t connections() {
    const std::scoped_lock lock(mutex_);
    return connections_.size();
  }
  /// Ends connection `index`, both ways.
  void cut_connection(std::size_t index) {
    const std::scoped_lock lock(mutex_);
    for (const int end : {connections_.at(index).client, connections_.at(index).server}) {
      shutdown(end, SHUT_RDWR);
    }
  }
  /// Stops connection `index` from now on, without closing it.
  void mute_connection(std::size_t index) {
    const std::scoped_lock lock(mutex_);
    connections_.at(index).muted = true;
  }
  /// Whether a socket of that name has been made in the run's folder.
  bool has_seen(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    return seen_.contains(name);
  }

 private:
  struct Connection {
    int client = -1, server = -1;
    bool muted = false, over = false;
  };
  static void close_both(const Connection& each) {
    close(each.client);
    close(each.server);
  }
  void forward_bytes(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> ends{{watch_, POLLIN, 0}, {listener_, POLLIN, 0}};
      {
        const std::scoped_lock lock(mutex_);
        for (const Connection& each : connections_) {
          const bool closed = each.muted || each.over;
          ends.push_back({closed ? -1 : each.client, POLLIN, 0});
          ends.push_back({closed ? -1 : each.server, POLLIN, 0});
        }
      }
      if (poll(ends.data(), ends.size(), 20) <= 0) continue;
      if (ends[0].revents != 0) find_sockets();
      if (ends[1].revents != 0) let_in();
      const std::scoped_lock lock(mutex_);
      for (std::size_t i = 2; i < ends.size(); ++i) {
        Connection& each = connections_[i / 2 - 1];
        if (ends[i].revents == 0 || each.muted || each.over) continue;
        const int to = ends[i].fd == each.client ? each.server : each.client;
        if (pass_on(ends[i].fd, to)) continue;
        each.over = true;
        for (const int end : {each.client, each.server}) shutdown(end, SHUT_RDWR);
      }
    }
  }

  static bool pass_on(int from, int to) {
    std::array<char, 1 << 16> piece;
    const ssize_t got = recv(from, piece.data(), piece.size(), 0);
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t more =
          send(to, piece.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      if (more <= 0) return false;
      sent += more;
    }
    return got > 0;
  }

  /// Finds new sockets in the parent of the runs' folders, or in the run's folder.
  void find_sockets() {
    alignas(inotify_event) std::array<char, 1 << 14> buffer;
    const ssize_t got = read(watch_, buffer.data(), buffer.size());
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      const std::string made = event->len > 0 ? event->name : "";
      if (folder_.empty() && made.starts_with("orrery-live-")) {
        folder_ = run_parent() + "/" + made;
        inotify_add_watch(watch_, folder_.c_str(), IN_CREATE);
      } else {
        const std::scoped_lock lock(mutex_);
        seen_.insert(made);
      }
      if (made == name_ && listener_ < 0) take_place();
    }
  }

  void take_place() {
    const std::string path = folder_ + "/" + name_;
    std::filesystem::rename(path, path + ".real");
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un here = socket_address(path);
    bind(listener_, reinterpret_cast<const sockaddr*>(&here), sizeof here);
    listen(listener_, 64);
  }

  void let_in() {
    Connection made;
    made.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    made.server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un real = socket_address(folder_ + "/" + name_ + ".real");
    // It is bound when its name appears, but listens only a moment later.
    while (connect(made.server, reinterpret_cast<const sockaddr*>(&real), sizeof real) != 0 &&
           errno == ECONNREFUSED) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::scoped_lock lock(mutex_);
    connections_.push_back(made);
  }

  const std::string name_;
  const int watch_;
  std::string folder_;
  int listener_ = -1;
  std::mutex mutex_;  // guards the two below
  std::vector<Connection> connections_;
  std::set<std::string> seen_;
  std::jthread thread_;
};

}  // namespace orrery::live
