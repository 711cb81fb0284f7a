#include "core/process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMaxMessageBytes = std::size_t{256} << 20;
constexpr std::chrono::milliseconds kTermGrace{2000};

// First action of every child: from here on the child dies with its parent unless `end` is
// by_itself, has its channel at kChildDescriptor, the default actions of SIGINT, SIGTERM, SIGPIPE
// and SIGCHLD, and no blocked signals. Async-signal-safe calls only.
void become_child(int channel, pid_t parent, ChildEnd end = ChildEnd::with_parent) {
  if (end == ChildEnd::with_parent) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  if (channel == kChildDescriptor) {
    fcntl(channel, F_SETFD, 0);
  } else {
    dup2(channel, kChildDescriptor);
  }
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Runs in the child between fork and exec.
[[noreturn]] void exec_child(const char* program, char* const* argv, char* const* environment,
                             int channel, int error_pipe, pid_t parent, ChildGroup group,
                             ChildEnd end) {
  // The pipe moves away if it has the descriptor that the channel needs.
  if (error_pipe == kChildDescriptor) error_pipe = fcntl(error_pipe, F_DUPFD_CLOEXEC, 10);
  become_child(channel, parent, end);
  if (group == ChildGroup::own) setpgid(0, 0);
  execve(program, argv, environment);
  const int reason = errno;
  [[maybe_unused]] const auto written = write(error_pipe, &reason, sizeof reason);
  _exit(127);
}

/// Returns the environment of a new child. A fork server binds all functions of its libraries
/// early: otherwise each of its children would bind them.
std::vector<char*> environment_for(const std::vector<std::string>& arguments) {
  static char bind_now[] = "LD_BIND_NOW=1";
  std::vector<char*> all;
  for (char** each = environ; *each != nullptr; ++each) all.push_back(*each);
  if (!arguments.empty() && arguments.front() == kForkServerArgument) all.push_back(bind_now);
  all.push_back(nullptr);
  return all;
}

/// Forks a child whose parent is the parent of this process, which fork() does not support. Call in
/// a process with one thread only, so that no other thread holds a lock.
pid_t fork_for_parent() {
  return static_cast<pid_t>(
      syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

std::array<int, 2> channel_pair() {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0) return sockets;
  throw Error(ErrorKind::environment, fmt::format("cannot open a socket pair: {}",
                                                  strerror(errno)));
}

/// Message of one byte that transfers a descriptor over a socket.
struct DescriptorMessage {
  DescriptorMessage() {
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

bool send_descriptor(int over, int descriptor) {
  DescriptorMessage message;
  cmsghdr* const part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  ssize_t sent = 0;
  do {
    sent = sendmsg(over, &message.header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

/// Returns the descriptor of the next message; nothing if the peer is gone.
std::optional<int> receive_descriptor(int over) {
  DescriptorMessage message;
  ssize_t got = 0;
  do {
    got = recvmsg(over, &message.header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* const part = got == 1 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (part == nullptr || part->cmsg_type != SCM_RIGHTS) return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
  return descriptor;
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

std::string ExitStatus::description() const {
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", code);
}

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& arguments,
                           ChildGroup group, ChildEnd end)
    : group_(group) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  const std::vector<char*> environment = environment_for(arguments);
  const std::array<int, 2> sockets = channel_pair();
  std::array<int, 2> errors{};
  if (pipe2(errors.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::environment, fmt::format("cannot open a pipe: {}", strerror(errno)));
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    exec_child(program.c_str(), argv.data(), environment.data(), sockets[1], errors[1], parent,
               group, end);
  }
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

ChildProcess::ChildProcess(ForkServer& server) {
  const std::array<int, 2> sockets = channel_pair();
  pid_ = server.fork_with(sockets[1]);
  const int fork_error = errno;
  close(sockets[1]);
  channel_ = sockets[0];
  if (pid_ > 0) return;
  close_channel();
  throw Error(ErrorKind::environment,
              pid_ < 0 ? fmt::format("cannot start {}: {}", server.program(), strerror(fork_error))
                       : fmt::format("cannot start {}: the process that forks it has ended",
                                     server.program()));
}

std::optional<ChildProcess> ChildProcess::fork_here() {
  const std::array<int, 2> sockets = channel_pair();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become_child(sockets[1], parent);
    if (sockets[0] != kChildDescriptor) close(sockets[0]);  // else: the channel now
    if (sockets[1] != kChildDescriptor) close(sockets[1]);
    return {};
  }
  const int fork_error = errno;
  close(sockets[1]);
  if (pid > 0) return ChildProcess(pid, sockets[0]);
  close(sockets[0]);
  throw Error(ErrorKind::environment, fmt::format("cannot fork: {}", strerror(fork_error)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : owner_(other.owner_),
      pid_(std::exchange(other.pid_, -1)),
      channel_(std::exchange(other.channel_, -1)),
      group_(other.group_),
      status_(std::exchange(other.status_, std::nullopt)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(pid_, other.pid_);
  std::swap(channel_, other.channel_);
  std::swap(group_, other.group_);
  std::swap(status_, other.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  close_channel();
  if (pid_ <= 0 || status_ || owner_ != getpid()) return;
  signal(SIGTERM);
  if (group_ == ChildGroup::shared && wait_for(kTermGrace)) return;
  // The unreaped child keeps the number of its group from being used again.
  constexpr timespec kPause{0, 5'000'000};
  for (int i = 0; group_ == ChildGroup::own && i < 400 && !has_ended(); ++i) {
    nanosleep(&kPause, nullptr);
  }
  signal(SIGKILL);
  wait();
}

bool ChildProcess::has_ended() const {
  if (status_) return true;
  siginfo_t ended{};
  const int failed = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
  return failed != 0 || ended.si_pid != 0;
}

void ChildProcess::close_channel() {
  if (channel_ >= 0) close(std::exchange(channel_, -1));
}

void ChildProcess::signal(int number) {
  if (pid_ > 0 && !status_) kill(group_ == ChildGroup::own ? -pid_ : pid_, number);
}

ExitStatus ChildProcess::wait() {
  while (!status_) {
    int raw = 0;
    rusage usage{};
    if (wait4(pid_, &raw, 0, &usage) == pid_) {
      status_ = decode(raw, usage);
    } else if (errno != EINTR) {
      status_ = ExitStatus{.code = 255};  // reaped by other code
    }
  }
  return *status_;
}

std::optional<ExitStatus> ChildProcess::exit_status() {
  if (status_) return status_;
  int raw = 0;
  rusage usage{};
  if (wait4(pid_, &raw, WNOHANG, &usage) == pid_) status_ = decode(raw, usage);
  return status_;
}

std::optional<ExitStatus> ChildProcess::wait_for(std::chrono::milliseconds timeout) {
  // Most children end at once after their last message: short pauses first.
  constexpr std::chrono::microseconds kLongest{5000};
  std::chrono::microseconds waited{0}, pause{50};
  for (; waited < timeout; waited += pause, pause = std::min(2 * pause, kLongest)) {
    if (exit_status()) return status_;
    const timespec span{0, pause.count() * 1000};
    nanosleep(&span, nullptr);
  }
  return exit_status();
}

ForkServer::ForkServer(std::string program)
    : program_(std::move(program)), process_(program_, {kForkServerArgument}) {}

/// Returns the child's process id; 0 if the server is gone; a negative number, with errno set, if
/// the server cannot fork.
pid_t ForkServer::fork_with(int channel) {
  const std::lock_guard lock(one_at_a_time_);
  std::int64_t answer = 0;
  bool at_start = true;
  if (!send_descriptor(process_.channel(), channel) ||
      !read_fully(process_.channel(), reinterpret_cast<char*>(&answer), sizeof answer, at_start)) {
    return 0;
  }
  if (answer < 0) errno = static_cast<int>(-answer);
  return static_cast<pid_t>(answer);
}

void serve_forks() {
  const pid_t parent = getppid();
  while (const std::optional<int> channel = receive_descriptor(kChildDescriptor)) {
    const pid_t pid = fork_for_parent();
    if (pid == 0) {
      become_child(*channel, parent);
      if (*channel != kChildDescriptor) close(*channel);
      return;
    }
    const std::int64_t answer = pid > 0 ? pid : -errno;
    close(*channel);
    const char* const bytes = reinterpret_cast<const char*>(&answer);
    if (send(kChildDescriptor, bytes, sizeof answer, MSG_NOSIGNAL) != sizeof answer) break;
  }
  _exit(0);
}

std::size_t usable_cpus() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&mine));
}

std::string sibling_program(const std::string& name) {
  Dl_info here{};
  std::string path;
  if (dladdr(reinterpret_cast<void*>(&sibling_program), &here) != 0 && here.dli_fname != nullptr &&
      std::strstr(here.dli_fname, ".so") != nullptr) {
    path = here.dli_fname;  // the Python extension: its executables are in bin/ beside it
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    return folder + "bin/" + name;
  }
  std::array<char, 4096> buffer{};
  const ssize_t length = readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  path.assign(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return path.substr(0, path.rfind('/') + 1) + name;
}

bool write_message(int descriptor, const std::string& bytes) {
  std::array<char, 4> head{};
  const auto size = static_cast<std::uint32_t>(bytes.size());
  for (int i = 0; i < 4; ++i) head[std::size_t(i)] = static_cast<char>(size >> (8 * i));
  // The kernel does not write to the bytes.
  std::array<iovec, 2> parts{
      {{head.data(), head.size()}, {const_cast<char*>(bytes.data()), bytes.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    const ssize_t sent = sendmsg(descriptor, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    auto rest = static_cast<std::size_t>(sent);
    for (iovec& part : parts) {
      const std::size_t gone = std::min(rest, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + gone;
      part.iov_len -= gone;
      rest -= gone;
    }
  }
  return true;
}

std::optional<std::string> read_message(int descriptor) {
  std::string bytes;
  if (!read_message(descriptor, bytes)) return std::nullopt;
  return bytes;
}

bool read_message(int descriptor, std::string& bytes) {
  std::array<char, 4> head{};
  bool at_start = true;
  if (!read_fully(descriptor, head.data(), head.size(), at_start)) {
    ensure(at_start, "a message arrives whole");
    return false;
  }
  std::uint32_t size = 0;
  for (int i = 0; i < 4; ++i) {
    size |= std::uint32_t(static_cast<unsigned char>(head[std::size_t(i)])) << (8 * i);
  }
  ensure(size <= kMaxMessageBytes, "a message has at most 256 MiB");
  bytes.resize(size);
  ensure(read_fully(descriptor, bytes.data(), size, at_start), "a message arrives whole");
  return true;
}

}  // namespace orrery
