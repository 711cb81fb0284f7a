#include "policies/run/zmq_request.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::uint8_t kMore = 1, kLong = 2, kCommand = 4;
constexpr std::uint64_t kLongest = std::uint64_t{256} << 20;

/// Greeting of a client: signature, version 3.0, mechanism NULL.
std::string greeting() {
  std::string bytes(64, '\0');
  bytes[0] = '\xff';
  bytes[9] = '\x7f';
  bytes[10] = 3;
  std::copy_n("NULL", 4, bytes.begin() + 12);
  return bytes;
}

std::string frame(std::uint8_t flags, const std::string& body) {
  std::string bytes;
  if (body.size() < 256) {
    bytes += static_cast<char>(flags);
    bytes += static_cast<char>(body.size());
    return bytes + body;
  }
  bytes += static_cast<char>(flags | kLong);
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(body.size() >> shift);
  return bytes + body;
}

/// Command that ends the handshake: this side is a REQ socket.
std::string ready() {
  return frame(kCommand,
               std::string("\x05READY\x0bSocket-Type\0\0\0\3REQ\x08Identity\0\0\0\0", 38));
}

}  // namespace

ZmqRequest::ZmqRequest(const std::string& host, std::uint16_t port,
                       std::chrono::milliseconds patience)
    : server_(fmt::format("{}:{}", host, port)), patience_(patience) {
  constexpr int kPause_ms = 50;
  for (auto left = patience.count();; left -= kPause_ms) {
    connect_once(host, port);
    if (socket_ >= 0) break;
    if (left <= 0) {
      throw Error(ErrorKind::environment,
                  fmt::format("expected a scheduler at {} within {:g} s, found none", server_,
                              static_cast<double>(patience.count()) / 1000));
    }
    poll(nullptr, 0, kPause_ms);
  }
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  send_all(greeting());
  const std::string theirs = receive_bytes(64);
  const bool speaks = theirs[0] == '\xff' && theirs[9] == '\x7f' && theirs[10] >= 3 &&
                      theirs.compare(12, 5, std::string("NULL\0", 5)) == 0;
  if (!speaks) {
    throw Error(
        ErrorKind::environment,
        fmt::format("expected ZeroMQ (ZMTP 3, NULL) at {}, found another protocol", server_));
  }
  send_all(ready());
  std::string body;
  if ((receive_frame(body) & kCommand) == 0 || body.compare(0, 6, "\x05READY") != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("expected the command READY of {}, found another", server_));
  }
}

ZmqRequest::~ZmqRequest() {
  if (socket_ >= 0) close(socket_);
}

void ZmqRequest::connect_once(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    throw Error(ErrorKind::usage, fmt::format("expected an IPv4 address, got '{}'", host));
  }
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return;
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  close(socket_);
  socket_ = -1;
}

void ZmqRequest::send_all(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(ErrorKind::environment, fmt::format("the scheduler at {} is gone", server_));
    }
    sent += static_cast<std::size_t>(count);
  }
}

std::string ZmqRequest::receive_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t have = 0; have < count;) {
    pollfd waiting{socket_, POLLIN, 0};
    const int is_ready = poll(&waiting, 1, static_cast<int>(patience_.count()));
    if (is_ready < 0 && errno == EINTR) continue;
    if (is_ready <= 0) {
      throw Error(ErrorKind::environment,
                  fmt::format("expected an answer of the scheduler at {} within {:g} s, got none",
                              server_, static_cast<double>(patience_.count()) / 1000));
    }
    const ssize_t got = recv(socket_, bytes.data() + have, count - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(ErrorKind::environment,
                  fmt::format("the scheduler at {} has ended before its answer", server_));
    }
    have += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::uint8_t ZmqRequest::receive_frame(std::string& body) {
  const auto flags = static_cast<std::uint8_t>(receive_bytes(1)[0]);
  std::uint64_t size = 0;
  for (const char byte : receive_bytes((flags & kLong) != 0 ? 8 : 1)) {
    size = size << 8 | static_cast<std::uint8_t>(byte);
  }
  if (size > kLongest) {
    throw Error(
        ErrorKind::environment,
        fmt::format("expected at most 256 MiB of the scheduler at {}, found more", server_));
  }
  body = receive_bytes(size);
  return flags;
}

std::string ZmqRequest::send_request(const std::string& message) {
  send_all(frame(kMore, "") + frame(0, message));
  std::string answer, body;
  bool is_content = false;
  while (true) {
    const std::uint8_t flags = receive_frame(body);
    if ((flags & kCommand) != 0) continue;
    if (is_content) answer += body;
    is_content = is_content || body.empty();
    if ((flags & kMore) == 0) return answer;
  }
}

}  // namespace orrery
