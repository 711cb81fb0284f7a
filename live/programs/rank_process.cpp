#include "live/programs/rank_process.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/socket_address.hpp"

namespace orrery::live {

namespace {

constexpr int kUnknownCode = 255;
constexpr int kSignalCode = 128;  ///< exit code of a shell for a signal, without its number

/// Returns a descriptor that becomes readable once the process has ended.
Descriptor end_of(pid_t pid) {
  const auto ended = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (ended >= 0) return Descriptor(ended);
  throw Error(ErrorKind::environment,
              fmt::format("cannot watch process {}: {}", pid, std::strerror(errno)));
}

}  // namespace

RankProcess start_rank(const RankStarter& starter, const RankStart& start) {
  const double begin_s = monotonic_s();
  StartedRank started = starter(start);
  Descriptor ended = end_of(started.process.pid());
  return RankProcess{.process = std::move(started.process),
                     .ended = std::move(ended),
                     .reader = {},
                     .is_warm = started.is_warm,
                     .started_s = begin_s};
}

RankProcess take_rank(pid_t pid, Descriptor channel, std::string exit_file) {
  return RankProcess{.process = TakenProcess{pid, std::move(channel), std::move(exit_file)},
                     .ended = end_of(pid),
                     .reader = {},
                     .started_s = monotonic_s()};
}

pid_t RankProcess::pid() const {
  const auto* child = std::get_if<ChildProcess>(&process);
  return child != nullptr ? child->pid() : std::get<TakenProcess>(process).pid;
}

int RankProcess::channel() const {
  const auto* child = std::get_if<ChildProcess>(&process);
  return child != nullptr ? child->channel() : std::get<TakenProcess>(process).channel.number();
}

bool RankProcess::has_ended() const {
  if (const auto* child = std::get_if<ChildProcess>(&process)) return child->has_ended();
  pollfd end{ended.number(), POLLIN, 0};
  return is_reaped || ended.number() < 0 || poll(&end, 1, 0) > 0;
}

void RankProcess::signal(int number) const {
  if (is_reaped || pid() <= 0) return;
  // Until a rank that is no child writes its exit code, the file has the signal that ends it.
  const auto* taken = std::get_if<TakenProcess>(&process);
  if (taken != nullptr && !has_ended()) std::ofstream(taken->exit_file) << -number;
  kill(-pid(), number);
}

std::optional<ExitStatus> RankProcess::exit_status() {
  std::optional<ExitStatus> status;
  if (auto* child = std::get_if<ChildProcess>(&process)) {
    status = child->exit_status();
  } else if (has_ended()) {
    status.emplace();
    has_code =
        static_cast<bool>(std::ifstream(std::get<TakenProcess>(process).exit_file) >> status->code);
    if (!has_code) {
      status->code = kUnknownCode;
    } else if (status->code < 0) {
      status->signal = -status->code;
      status->code = kSignalCode + status->signal;
    }
  }
  is_reaped = is_reaped || status.has_value();
  return status;
}

std::string RankProcess::description(const ExitStatus& status) const {
  return has_code ? status.description() : "ended without an exit code: killed, or by os._exit()";
}

double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void add_waiting(std::vector<pollfd>& waiting, const RankProcess& process) {
  waiting.push_back({process.ended.number(), POLLIN, 0});
  if (process.is_open) waiting.push_back({process.channel(), POLLIN, 0});
}

std::string read_messages(RankProcess& process, const std::function<void(const Fields&)>& handle) {
  process.is_open = receive_bytes(process.channel(), process.reader) && !process.reader.is_torn();
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

Descriptor listening_socket(const std::string& path) {
  unlink(path.c_str());
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = socket_address(path);
  if (bind(listener.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.number(), SOMAXCONN) != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("{}: cannot listen: {}", path, std::strerror(errno)));
  }
  return listener;
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
