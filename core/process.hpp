// Starting and reaping child processes: the one place that forks. A child is a program started
// anew, a fork of a program that waits for that (ForkServer), or a fork of this process where it
// stands. It dies with its parent (also when the parent is killed with -9), and is reaped when its
// handle goes away. Parent and child talk over one socket pair that the child has as descriptor 3.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

/// How a child ended: exit code, or the signal that killed it.
struct ExitStatus {
  int code = 0;    ///< exit code; 128 + signal when killed
  int signal = 0;  ///< 0 when it exited by itself
  double cpu_s = 0;
  long peak_rss_bytes = 0;
  std::string describe() const;  ///< "exit code 3", "killed by signal 9 (Killed)"
};

inline constexpr int kChildDescriptor = 3;

class ForkServer;

class ChildProcess {
 public:
  /// Starts `program` with `arguments` (without argv[0]). Throws an environment Error if the
  /// program cannot be executed.
  ChildProcess(const std::string& program, const std::vector<std::string>& arguments);
  /// A fork of the server's program. It dies with the thread that started the server. Throws an
  /// environment Error if the server is gone.
  explicit ChildProcess(ForkServer& server);
  /// Forks this process, which has one thread, where it stands. Nothing is returned in the child.
  /// Throws an environment Error if there can be no more processes.
  static std::optional<ChildProcess> fork_here();
  /// Kills (SIGTERM, after 2 s SIGKILL) and reaps if still running; in a fork of the process that
  /// started it, does neither.
  ~ChildProcess();
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  int channel() const { return channel_; }  ///< our end of the socket pair
  void close_channel();
  void signal(int number);
  ExitStatus wait();                       ///< blocks; idempotent
  std::optional<ExitStatus> poll();        ///< does not block
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds timeout);

 private:
  ChildProcess(pid_t pid, int channel) : pid_(pid), channel_(channel) {}

  pid_t owner_ = getpid();
  pid_t pid_ = -1;
  int channel_ = -1;
  std::optional<ExitStatus> status_;
};

/// A program that has been started once and forks for every child, which so begins with all its
/// libraries loaded. The children are this process's, as if it had started them; the end of the
/// server is not theirs. Any thread may ask it for a child.
class ForkServer {
 public:
  /// Throws an environment Error if `program` cannot be executed. Its main() calls serve_forks()
  /// where its first argument is kForkServerArgument.
  explicit ForkServer(std::string program);

  const std::string& program() const { return program_; }

 private:
  friend class ChildProcess;
  pid_t fork_with(int channel);

  const std::string program_;
  std::mutex one_at_a_time_;
  ChildProcess process_;
};

inline constexpr const char* kForkServerArgument = "--fork-server";
/// Returns in each child that is forked, which then has a channel of its own; ends the process
/// when whoever asked for children is gone. Before any thread has been started.
void serve_forks();

/// How many processors this process may use.
std::size_t usable_cpus();

/// Directory of the running executable, or of the shared object that holds this code when
/// `ORRERY` is loaded into another program: where the sibling executables stand.
std::string sibling_program(const std::string& name);

/// Writes one length-prefixed message (4 bytes little endian, then the bytes) to a descriptor;
/// false when the peer is gone. Never raises SIGPIPE.
bool write_message(int descriptor, const std::string& bytes);
/// Reads one message; nothing when the peer closed. Throws an internal Error on a torn message
/// and on one above 256 MiB.
std::optional<std::string> read_message(int descriptor);

}  // namespace orrery
