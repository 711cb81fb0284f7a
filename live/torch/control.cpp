#include "live/torch/control.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "core/files/socket_address.hpp"
#include "live/group/messages.hpp"
#include "live/group/operation_log.hpp"
#include "live/group/takeover_files.hpp"

namespace orrery::live {
namespace {

constexpr double kBeat_s = 0.1;
constexpr double kAsk_s = 1;  ///< time between two questions for a successor
constexpr std::chrono::milliseconds kGlance{100};
constexpr int kSweeps = 50;  // sockets that an interrupted connection still opens are found, too
constexpr std::uint32_t kNetwork = 127u << 24 | 64u << 16;  // 127.64.0.0 to 127.191.255.255
constexpr std::uint32_t kEpochs = 128;

/// Returns true if an address of a socket is one of a group, and in `current` no more.
bool is_old(const sockaddr_storage& address, const Addresses& current) {
  if (address.ss_family != AF_INET) return false;
  sockaddr_in in;
  std::memcpy(&in, &address, sizeof in);
  const std::uint32_t host = ntohl(in.sin_addr.s_addr);
  const bool is_of_group = host >= kNetwork && host < kNetwork + (kEpochs << 16);
  return is_of_group && current.count(host) == 0;
}

void shut_old_socket(int descriptor, const Addresses& current) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
  if (address.ss_family != AF_INET) return;
  int listens = 0;
  socklen_t length = sizeof listens;
  getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length);
  if (listens != 0) return;  // Gloo aborts the process if its listener is shut
  bool old = is_old(address, current);
  size = sizeof address;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    old = old || is_old(address, current);
  }
  if (old) shutdown(descriptor, SHUT_RDWR);
}

/// Returns a socket that is connected to `path`; -1 if nobody listens there.
int connected_socket(const std::string& path) {
  const auto address = find_socket_address(path);
  if (!address) return -1;
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  const auto* const to = reinterpret_cast<const sockaddr*>(&*address);
  if (connect(made, to, sizeof *address) == 0) return made;
  close(made);
  return -1;
}

/// Sends all bytes. Returns false if the peer is gone.
bool send_all(int socket, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

/// Blocks until bytes arrive, and adds them. Returns false at the end of the stream.
bool receive_some(int socket, FrameReader& reader) {
  std::array<char, 1 << 16> buffer;
  ssize_t got = 0;
  do {
    got = recv(socket, buffer.data(), buffer.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  reader.add_bytes(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

}  // namespace

std::uint32_t address_of_group(const std::string& key, std::uint64_t epoch) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char each : key) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619u;
  hash = (hash >> 16 ^ hash) & 0xFFFFu;
  const std::uint32_t last = 1 + (hash & 0xFFu) % 254;  // neither network nor broadcast
  return kNetwork + (static_cast<std::uint32_t>(epoch % kEpochs) << 16) + (hash & 0xFF00u) + last;
}

std::string text_of_address(std::uint32_t address) {
  std::string text;
  for (const int shift : {24, 16, 8, 0}) {
    text += (text.empty() ? "" : ".") + std::to_string(address >> shift & 0xFFu);
  }
  return text;
}

ProgramControl::ProgramControl(int descriptor, std::size_t rank, std::string folder,
                               ControlCalls calls)
    : descriptor_(descriptor), rank_(rank), folder_(std::move(folder)), calls_(std::move(calls)) {
  send_fields(message_of(MessageKind::hello, {std::to_string(rank), std::to_string(getpid())}));
  on_exit([](int code, void* self) { static_cast<ProgramControl*>(self)->record_exit(code); },
          this);
  std::thread([this] { run_connection(); }).detach();
}

void ProgramControl::send_fields(const Fields& fields) {
  {
    const std::lock_guard<std::mutex> lock(sending_);
    facts_.record_message(fields);
  }
  send_frames(encode_frame(fields));
}

void ProgramControl::send_reports() { send_frames(""); }

/// Sends the reports that wait, and the frame `last`.
void ProgramControl::send_frames(const std::string& last) {
  const std::lock_guard<std::mutex> lock(sending_);
  send_all(descriptor_, reports_.drain_frames() + last);
}

ProgramEpoch ProgramControl::epoch() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return has_epoch_ || is_gone_; });
  return epoch_;
}

bool ProgramControl::has_epoch() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return has_epoch_;
}

void ProgramControl::confirm_leavers() {
  const DoneCounts done = calls_.done_counts();
  std::vector<std::string> confirmed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = leavers_.begin(); at != leavers_.end();) {
      bool reached = true;
      for (const auto& [group, count] : at->second) {
        const auto own = done.find(group);
        reached = reached && (own == done.end() || own->second >= count);
      }
      if (reached) confirmed.push_back(at->first);
      at = reached ? leavers_.erase(at) : std::next(at);
    }
  }
  for (const std::string& leaver : confirmed) {
    send_fields(message_of(MessageKind::confirmed, {leaver}));
  }
}

void ProgramControl::leave_run() {
  Fields message = message_of(MessageKind::leave);
  for (const auto& [group, count] : calls_.done_counts()) {
    message.push_back(group);
    message.push_back(std::to_string(count));
  }
  send_fields(message);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return has_left_ || is_gone_; });
}

void ProgramControl::run_connection() {
  while (true) {
    serve_connection();
    was_alone_ = true;
    reports_.close_reports();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_gone_ = true;
      changed_.notify_all();
    }
    calls_.connected(false);
    await_successor();
  }
}

void ProgramControl::serve_connection() {
  std::vector<char> buffer(1 << 16);
  double next_beat_s = clock_s(), next_look_s = next_beat_s;
  while (true) {
    const double now_s = clock_s();
    if (now_s >= next_beat_s) {
      send_fields(message_of(MessageKind::beat));
      if (sweeps_left_ > 0) shut_old_sockets();
      next_beat_s = now_s + kBeat_s;
    }
    if (now_s >= next_look_s) {
      send_reports();
      next_look_s = reports_.next_look_s(now_s);
    }
    const double left_s = std::max(0.0, std::min(next_beat_s, next_look_s) - clock_s());
    pollfd waiting{descriptor_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::ceil(left_s * 1e3))) <= 0) continue;
    const ssize_t got = recv(descriptor_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return;
    reader_.add_bytes(buffer.data(), static_cast<std::size_t>(got));
    handle_frames();
  }
}

void ProgramControl::await_successor() {
  double next_s = clock_s() + kAsk_s;
  int socket = -1;
  while (socket < 0) {
    std::this_thread::sleep_for(kGlance);
    calls_.watch_alone();
    if (clock_s() < next_s) continue;
    socket = connected_socket(successor_socket(folder_));
    if (socket >= 0 && !is_accepted(socket)) close(std::exchange(socket, -1));
    next_s = clock_s() + kAsk_s;
  }
  calls_.connected(true);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_gone_ = false;
    leavers_.clear();
  }
  reports_.open_reports();
  {
    const std::lock_guard<std::mutex> lock(sending_);
    dup3(socket, descriptor_, O_CLOEXEC);
    for (const Fields& fact : facts_.messages()) send_all(descriptor_, encode_frame(fact));
  }
  close(socket);
  handle_frames();
}

/// Tells a successor the process, steps and epoch of this rank, and blocks until it has heard of
/// all ranks. Returns false if the successor refuses the rank or ends.
bool ProgramControl::is_accepted(int socket) {
  Fields known = message_of(MessageKind::again, {std::to_string(rank_), std::to_string(getpid()),
                                                 std::to_string(calls_.steps())});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!has_epoch_) return false;
    const Fields epoch = message_of(epoch_);
    known.insert(known.end(), epoch.begin() + 1, epoch.end());
  }
  reader_ = FrameReader();
  return send_all(socket, encode_frame(known)) && receive_some(socket, reader_);
}

void ProgramControl::handle_frames() {
  while (const auto fields = reader_.next_frame()) handle_frame(*fields);
}

/// Writes the exit code of this process for a successor, which is not its parent.
void ProgramControl::record_exit(int code) const {
  if (!was_alone_) return;
  const std::string path = exit_file(folder_, rank_), text = std::to_string(code & 0xFF);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, text.data(), text.size());
  close(file);
}

void ProgramControl::handle_frame(const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  if (kind == MessageKind::epoch) {
    const ProgramEpoch next = epoch_of(fields);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      epoch_ = next;
      has_epoch_ = true;
      changed_.notify_all();
    }
    calls_.heard(next);
    sweeps_left_ = kSweeps;
    shut_old_sockets();
  } else if (kind == MessageKind::confirm) {
    DoneCounts counts;
    for (std::size_t at = 2; at + 1 < fields.size(); at += 2) {
      counts[fields[at]] = std::stoull(fields[at + 1]);
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      leavers_[fields.at(1)] = counts;
    }
    confirm_leavers();
  } else if (kind == MessageKind::left) {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_left_ = true;
    changed_.notify_all();
  } else {
    calls_.others(fields);
  }
}

void ProgramControl::shut_old_sockets() {
  --sweeps_left_;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  const Addresses current = calls_.addresses();
  while (const dirent* const entry = readdir(folder)) {
    const int descriptor = std::atoi(entry->d_name);
    if (descriptor > 3) shut_old_socket(descriptor, current);
  }
  closedir(folder);
}

}  // namespace orrery::live
