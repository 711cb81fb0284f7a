#include "core/process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMaxMessageBytes = std::size_t{256} << 20;
constexpr std::chrono::milliseconds kTermGrace{2000};

// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void exec_child(const char* program, char* const* argv, int channel, int error_pipe,
                             pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  // The pipe may stand where the channel has to go.
  if (error_pipe == kChildDescriptor) error_pipe = fcntl(error_pipe, F_DUPFD_CLOEXEC, 10);
  if (channel == kChildDescriptor) {
    fcntl(channel, F_SETFD, 0);
  } else {
    dup2(channel, kChildDescriptor);
  }
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(program, argv);
  const int reason = errno;
  [[maybe_unused]] const auto written = write(error_pipe, &reason, sizeof reason);
  _exit(127);
}

ExitStatus decode(int raw, const rusage& usage) {
  ExitStatus status;
  if (WIFSIGNALED(raw)) {
    status.signal = WTERMSIG(raw);
    status.code = 128 + status.signal;
  } else {
    status.code = WEXITSTATUS(raw);
  }
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  status.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  status.peak_rss_bytes = usage.ru_maxrss * 1024;
  return status;
}

bool read_fully(int descriptor, char* to, std::size_t count, bool& at_start) {
  while (count > 0) {
    const ssize_t got = recv(descriptor, to, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at_start = false;
    to += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

std::string ExitStatus::describe() const {
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", code);
}

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  std::array<int, 2> sockets{};
  std::array<int, 2> errors{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0 ||
      pipe2(errors.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::environment, fmt::format("no descriptors left: {}", strerror(errno)));
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) exec_child(program.c_str(), argv.data(), sockets[1], errors[1], parent);
  const int fork_error = errno;
  close(sockets[1]);
  close(errors[1]);
  channel_ = sockets[0];
  int reason = 0;
  const bool failed = pid_ < 0 || read(errors[0], &reason, sizeof reason) == sizeof reason;
  close(errors[0]);
  if (!failed) return;
  if (pid_ > 0) wait();
  close_channel();
  throw Error(ErrorKind::environment, fmt::format("cannot start {}: {}", program,
                                                  strerror(pid_ < 0 ? fork_error : reason)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      channel_(std::exchange(other.channel_, -1)),
      status_(std::exchange(other.status_, std::nullopt)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(channel_, other.channel_);
  std::swap(status_, other.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  close_channel();
  if (pid_ <= 0 || status_) return;
  signal(SIGTERM);
  if (!wait_for(kTermGrace)) {
    signal(SIGKILL);
    wait();
  }
}

void ChildProcess::close_channel() {
  if (channel_ >= 0) close(std::exchange(channel_, -1));
}

void ChildProcess::signal(int number) {
  if (pid_ > 0 && !status_) kill(pid_, number);
}

ExitStatus ChildProcess::wait() {
  while (!status_) {
    int raw = 0;
    rusage usage{};
    if (wait4(pid_, &raw, 0, &usage) == pid_) {
      status_ = decode(raw, usage);
    } else if (errno != EINTR) {
      status_ = ExitStatus{.code = 255};  // somebody else reaped it
    }
  }
  return *status_;
}

std::optional<ExitStatus> ChildProcess::poll() {
  if (status_) return status_;
  int raw = 0;
  rusage usage{};
  if (wait4(pid_, &raw, WNOHANG, &usage) == pid_) status_ = decode(raw, usage);
  return status_;
}

std::optional<ExitStatus> ChildProcess::wait_for(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kPause{5};
  for (std::chrono::milliseconds waited{0}; waited < timeout; waited += kPause) {
    if (poll()) return status_;
    ::poll(nullptr, 0, static_cast<int>(kPause.count()));
  }
  return poll();
}

std::string sibling_program(const std::string& name) {
  Dl_info here{};
  std::string path;
  if (dladdr(reinterpret_cast<void*>(&sibling_program), &here) != 0 && here.dli_fname != nullptr &&
      std::strstr(here.dli_fname, ".so") != nullptr) {
    path = here.dli_fname;  // inside the Python extension: executables stand in bin/ beside it
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    return folder + "bin/" + name;
  }
  std::array<char, 4096> buffer{};
  const ssize_t length = readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  path.assign(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return path.substr(0, path.rfind('/') + 1) + name;
}

bool write_message(int descriptor, const std::string& bytes) {
  std::string framed(4, '\0');
  const auto size = static_cast<std::uint32_t>(bytes.size());
  for (int i = 0; i < 4; ++i) framed[std::size_t(i)] = static_cast<char>(size >> (8 * i));
  framed += bytes;
  std::string_view rest = framed;
  while (!rest.empty()) {
    const ssize_t sent = send(descriptor, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::optional<std::string> read_message(int descriptor) {
  std::array<char, 4> head{};
  bool at_start = true;
  if (!read_fully(descriptor, head.data(), head.size(), at_start)) {
    ensure(at_start, "a message arrives whole");
    return std::nullopt;
  }
  std::uint32_t size = 0;
  for (int i = 0; i < 4; ++i) {
    size |= std::uint32_t(static_cast<unsigned char>(head[std::size_t(i)])) << (8 * i);
  }
  ensure(size <= kMaxMessageBytes, "a message has at most 256 MiB");
  std::string bytes(size, '\0');
  ensure(read_fully(descriptor, bytes.data(), size, at_start), "a message arrives whole");
  return bytes;
}

}  // namespace orrery
