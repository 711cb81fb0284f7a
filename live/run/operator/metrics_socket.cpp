#include "live/run/operator/metrics_socket.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/socket_address.hpp"

namespace orrery::live {
namespace {

using Clock = std::chrono::steady_clock;

// Longest time from the acceptance of a connection to the last byte of its answer.
constexpr std::chrono::seconds kPatience{1};
// Pause after a refused connection: the process may lack descriptors, for example.
constexpr int kRefusedMs = 100;
constexpr std::size_t kMostRequest = 8192;
constexpr std::size_t kMostConnections = 16;

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::environment,
              fmt::format("live.metrics, --metrics: cannot listen at 'unix:{}': {}", path, why));
}

/// Returns true if a process accepts connections at `place`.
bool answers(const sockaddr_un& place) {
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool there =
      probe >= 0 && connect(probe, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
  if (probe >= 0) close(probe);
  return there;
}

/// Connection of one scraper: reads the head of the request, then writes the answer. Never blocks.
/// Owns its descriptor.
class Connection {
 public:
  explicit Connection(int descriptor)
      : descriptor_(descriptor), deadline_(Clock::now() + kPatience) {}
  ~Connection() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Connection(Connection&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        deadline_(other.deadline_),
        head_(std::move(other.head_)),
        answer_(std::move(other.answer_)),
        sent_(other.sent_) {}
  Connection& operator=(Connection&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(deadline_, other.deadline_);
    std::swap(head_, other.head_);
    std::swap(answer_, other.answer_);
    std::swap(sent_, other.sent_);
    return *this;
  }

  /// Returns the event to wait for.
  pollfd wanted_event() const {
    const bool reads = answer_.empty();
    return {descriptor_, static_cast<short>(reads ? POLLIN : POLLOUT), 0};
  }
  /// Returns the end of the scraper's time.
  Clock::time_point deadline() const { return deadline_; }

  /// Continues after the awaited event; `body`: metrics of an answer that begins now. Returns false
  /// if the connection is finished.
  bool advance(const std::string& body) {
    return answer_.empty() ? read_head(body) : write_answer();
  }

 private:
  bool read_head(const std::string& body) {
    char bytes[1024];
    const ssize_t got = recv(descriptor_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    head_.append(bytes, static_cast<std::size_t>(got));
    const bool partial = head_.find("\r\n\r\n") == std::string::npos;
    if (got > 0 && partial && head_.size() < kMostRequest) return true;
    const bool asks = head_.starts_with("GET ");
    answer_ = fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n"
        "Connection: close\r\n\r\n{}",
        asks ? "200 OK" : "405 Method Not Allowed", asks ? body.size() : 0, asks ? body : "");
    return write_answer();
  }

  bool write_answer() {
    const ssize_t some = send(descriptor_, answer_.data() + sent_, answer_.size() - sent_,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (some < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<std::size_t>(some);
    return sent_ < answer_.size();
  }

  int descriptor_;
  Clock::time_point deadline_;
  std::string head_, answer_;
  std::size_t sent_ = 0;
};

/// Returns the milliseconds until the first deadline, rounded up; -1 without connections.
int patience_ms(const std::vector<Connection>& connections) {
  if (connections.empty()) return -1;
  const auto first = std::min_element(
      connections.begin(), connections.end(),
      [](const Connection& a, const Connection& b) { return a.deadline() < b.deadline(); });
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first->deadline() - Clock::now());
  return std::max<int>(0, static_cast<int>(left.count()));
}

}  // namespace

MetricsSocket::MetricsSocket(std::string path) : path_(std::move(path)) {
  const auto place = find_socket_address(path_);
  if (!place) fail(path_, "expected a path of 1 to 107 bytes");
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode))
      fail(path_, "another file exists there; remove it or choose another path");
    if (answers(*place)) fail(path_, "another process listens there; choose another path");
    unlink(path_.c_str());
  }
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // The socket is closed to other users from the first moment on.
  const auto* const at = reinterpret_cast<const sockaddr*>(&*place);
  const bool listens = socket_ >= 0 && fchmod(socket_, 0600) == 0 &&
                       bind(socket_, at, sizeof *place) == 0 && chmod(path_.c_str(), 0600) == 0 &&
                       listen(socket_, 8) == 0;
  if (listens) wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) {
    const std::string why = std::strerror(errno);
    if (socket_ >= 0) close(socket_);
    if (listens) unlink(path_.c_str());
    fail(path_, why);
  }
  server_ = std::jthread([this] { serve_connections(); });
}

MetricsSocket::~MetricsSocket() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  server_.join();
  close(wake_);
  close(socket_);
  unlink(path_.c_str());
}

void MetricsSocket::set_text(std::string text) {
  const std::scoped_lock lock(mutex_);
  text_ = std::move(text);
}

void MetricsSocket::serve_connections() {
  std::vector<Connection> connections;
  while (true) {
    std::vector<pollfd> awaited{{wake_, POLLIN, 0}};
    for (const Connection& each : connections) awaited.push_back(each.wanted_event());
    if (connections.size() < kMostConnections) awaited.push_back({socket_, POLLIN, 0});
    if (poll(awaited.data(), awaited.size(), patience_ms(connections)) < 0) continue;
    if (awaited.front().revents != 0) return;
    const bool arrived = awaited.back().fd == socket_ && awaited.back().revents != 0;
    const std::string body = text();
    std::vector<Connection> open;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      Connection& each = connections[i];
      if (awaited[i + 1].revents != 0 && !each.advance(body)) continue;
      if (Clock::now() < each.deadline()) open.push_back(std::move(each));
    }
    connections = std::move(open);
    if (!arrived) continue;
    const int accepted = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) {
      connections.emplace_back(accepted);
    } else {
      pollfd wake{wake_, POLLIN, 0};
      poll(&wake, 1, kRefusedMs);
    }
  }
}

std::string MetricsSocket::text() {
  const std::scoped_lock lock(mutex_);
  return text_;
}

}  // namespace orrery::live
