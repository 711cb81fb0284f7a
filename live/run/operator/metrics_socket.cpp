#include "live/run/operator/metrics_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr int kAcceptMs = 100;
constexpr timeval kPatience{1, 0};
constexpr std::size_t kMostRequest = 8192;

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::environment,
              fmt::format("live.metrics: cannot listen at 'unix:{}': {}", path, why));
}

/// Returns true if a process accepts connections at `place`.
bool answers(const sockaddr_un& place) {
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool there =
      probe >= 0 && connect(probe, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
  if (probe >= 0) close(probe);
  return there;
}

/// Reads the head of a request, as far as it arrives in time.
std::string read_head(int connection) {
  std::string head;
  char bytes[1024];
  while (head.size() < kMostRequest && head.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = recv(connection, bytes, sizeof bytes, 0);
    if (got <= 0) break;
    head.append(bytes, static_cast<std::size_t>(got));
  }
  return head;
}

}  // namespace

MetricsSocket::MetricsSocket(std::string path) : path_(std::move(path)) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof place.sun_path) {
    fail(path_, "expected a path of 1 to 107 bytes");
  }
  path_.copy(place.sun_path, path_.size());
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode))
      fail(path_, "another file exists there; remove it or choose another path");
    if (answers(place)) fail(path_, "another process listens there; choose another path");
    unlink(path_.c_str());
  }
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // The socket is closed to other users from the first moment on.
  const auto* const at = reinterpret_cast<const sockaddr*>(&place);
  const bool listens = socket_ >= 0 && fchmod(socket_, 0600) == 0 &&
                       bind(socket_, at, sizeof place) == 0 && chmod(path_.c_str(), 0600) == 0 &&
                       listen(socket_, 8) == 0;
  if (!listens) {
    const std::string why = std::strerror(errno);
    if (socket_ >= 0) close(socket_);
    fail(path_, why);
  }
  server_ = std::jthread([this](const std::stop_token& stop) { serve_connections(stop); });
}

MetricsSocket::~MetricsSocket() {
  server_.request_stop();
  server_.join();
  close(socket_);
  unlink(path_.c_str());
}

void MetricsSocket::set_text(std::string text) {
  const std::scoped_lock lock(mutex_);
  text_ = std::move(text);
}

void MetricsSocket::serve_connections(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd look{socket_, POLLIN, 0};
    if (poll(&look, 1, kAcceptMs) != 1) continue;
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      poll(nullptr, 0, kAcceptMs);  // The process may lack descriptors, for example.
      continue;
    }
    answer_connection(connection);
    close(connection);
  }
}

void MetricsSocket::answer_connection(int connection) {
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  const bool asks = read_head(connection).starts_with("GET ");
  std::string body;
  if (asks) {
    const std::scoped_lock lock(mutex_);
    body = text_;
  }
  const std::string out = fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      asks ? "200 OK" : "405 Method Not Allowed", body.size(), body);
  for (std::size_t sent = 0; sent < out.size();) {
    const ssize_t some = send(connection, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (some <= 0) return;
    sent += static_cast<std::size_t>(some);
  }
}

}  // namespace orrery::live
