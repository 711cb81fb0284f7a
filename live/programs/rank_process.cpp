#include "live/programs/rank_process.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

RankProcess start_rank(const RankStarter& starter, const RankStart& start) {
  const double begin_s = monotonic_s();
  StartedRank started = starter(start);
  ChildProcess& process = started.process;
  const auto ended = static_cast<int>(syscall(SYS_pidfd_open, process.pid(), 0));
  if (ended < 0) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot watch process {}: {}", process.pid(), std::strerror(errno)));
  }
  return RankProcess{.process = std::move(process),
                     .ended = Descriptor(ended),
                     .reader = {},
                     .is_warm = started.is_warm,
                     .started_s = begin_s};
}

void RankProcess::signal(int number) const {
  if (!is_reaped) kill(-process.pid(), number);
}

std::optional<ExitStatus> RankProcess::exit_status() {
  const std::optional<ExitStatus> status = process.exit_status();
  is_reaped = is_reaped || status.has_value();
  return status;
}

double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void add_waiting(std::vector<pollfd>& waiting, const RankProcess& process) {
  waiting.push_back({process.ended.number(), POLLIN, 0});
  if (process.is_open) waiting.push_back({process.process.channel(), POLLIN, 0});
}

std::string read_messages(RankProcess& process, const std::function<void(const Fields&)>& handle) {
  process.is_open =
      receive_bytes(process.process.channel(), process.reader) && !process.reader.is_torn();
  std::string problem;
  while (const auto fields = process.reader.next_frame()) {
    try {
      handle(*fields);
    } catch (const std::exception& error) {  // a number or a field is missing
      problem = error.what();
    }
  }
  return problem;
}

bool send_frame(int descriptor, const Fields& fields) {
  const std::string frame = encode_frame(fields);
  for (std::size_t at = 0; at < frame.size();) {
    const ssize_t sent =
        send(descriptor, frame.data() + at, frame.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_bytes(int descriptor, FrameReader& reader) {
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t got = recv(descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    reader.add_bytes(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace orrery::live
