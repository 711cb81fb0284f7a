// Starting and reaping child processes: the one place that forks. A child always execs, dies with
// its parent (also when the parent is killed with -9), and is reaped when its handle goes away.
// Parent and child talk over one socket pair that the child inherits as descriptor 3.
#pragma once

#include <sys/types.h>

#include <chrono>
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

class ChildProcess {
 public:
  /// Starts `program` with `arguments` (without argv[0]). Throws an environment Error if the
  /// program cannot be executed.
  ChildProcess(const std::string& program, const std::vector<std::string>& arguments);
  ~ChildProcess();  ///< kills (SIGTERM, after 2 s SIGKILL) and reaps if still running
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
  pid_t pid_ = -1;
  int channel_ = -1;
  std::optional<ExitStatus> status_;
};

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
