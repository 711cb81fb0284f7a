// Child processes: the only code that forks. A child is a newly started program, a fork of a
// waiting program (ForkServer), or a fork of this process at its current position. It dies with its
// parent (also when the parent is killed with -9; ChildEnd::by_itself does not), and is reaped when
// its handle is destroyed.
// Parent and child communicate over one socket pair, descriptor 3 in the child.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

/// Result of a child that has ended: exit code, or the signal that killed it. Seconds and bytes.
struct ExitStatus {
  int code = 0;    ///< exit code; 128 + signal when killed
  int signal = 0;  ///< signal that killed the child; 0: the child exited by itself
  double cpu_s = 0;         ///< processor time in user and kernel mode
  long peak_rss_bytes = 0;  ///< largest resident memory
  /// Returns a text for people, for example "exit code 3" or "killed by signal 9 (Killed)".
  std::string description() const;
};

/// Descriptor of the socket pair in the child.
inline constexpr int kChildDescriptor = 3;

class ForkServer;

/// Process group of a child: the group of this process, or a group of its own, which also holds the
/// programs that the child starts.
enum class ChildGroup : std::uint8_t { shared, own };

/// End of a child whose parent is killed: with the parent, or by itself, whenever that is.
enum class ChildEnd : std::uint8_t { with_parent, by_itself };

/// Handle of a child process with its socket. One thread per handle. A moved-from handle may only
/// be destroyed or assigned to. Signals to a child with a group of its own go to the whole group.
class ChildProcess {
 public:
  /// Starts the executable at path `program` (PATH is not searched) with `arguments` (without
  /// argv[0]), and blocks until it executes. The child dies with the calling thread, unless `end`
  /// is by_itself. Throws an environment Error if the program cannot be executed, or if the
  /// process, its socket or a pipe cannot be made.
  ChildProcess(const std::string& program, const std::vector<std::string>& arguments,
               ChildGroup group = ChildGroup::shared, ChildEnd end = ChildEnd::with_parent);
  /// Forks the server's program. The child dies with the thread that started the server. Throws an
  /// environment Error if the server is gone or cannot fork, or if no socket can be made.
  explicit ChildProcess(ForkServer& server);
  /// Forks this process, which must have one thread, at its current position. Returns the handle in
  /// the parent, nothing in the child. Throws an environment Error if no more processes or sockets
  /// can be created.
  static std::optional<ChildProcess> fork_here();
  /// Closes the channel, kills a running child (SIGTERM, after 2 s SIGKILL) and blocks until the
  /// child is reaped. In a fork of the process that started the child, closes the channel only. Of
  /// a group, no process is left if the child was still running.
  ~ChildProcess();
  ChildProcess(ChildProcess&&) noexcept;
  /// Exchanges the children of both handles: the other handle then owns the child of this handle.
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }  ///< valid also after the child is reaped; -1: moved-from
  int channel() const { return channel_; }  ///< this process's end of the socket pair; -1: closed
  void close_channel();  ///< a second call does nothing
  /// Sends signal `number`, without waiting for its effect; does nothing if this handle has reaped
  /// the child. Errors of the system are ignored.
  void signal(int number);
  /// Blocks until the child ends, and reaps it. Later calls return the same status. Returns exit
  /// code 255 if other code has reaped the child.
  ExitStatus wait();
  /// Reaps the child if it has ended and returns its status, without blocking; returns nothing
  /// while the child runs, and also if other code has reaped the child.
  std::optional<ExitStatus> exit_status();
  /// Returns true if the child has ended, or other code has reaped it; does not reap the child.
  bool has_ended() const;
  /// Blocks until the child ends, for about `timeout` at most, and reaps the child. Returns its
  /// status; nothing if the child still runs, or if other code has reaped the child. A timeout of 0
  /// does not block.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds timeout);

 private:
  ChildProcess(pid_t pid, int channel) : pid_(pid), channel_(channel) {}

  pid_t owner_ = getpid();
  pid_t pid_ = -1;
  int channel_ = -1;
  ChildGroup group_ = ChildGroup::shared;
  std::optional<ExitStatus> status_;
};

/// Program that is started once and forks for every child, so that each child begins with all
/// libraries loaded. The children belong to this process, as if it had started them, and survive
/// the end of the server. Any thread may request a child. The destructor ends the server as
/// ~ChildProcess() does.
class ForkServer {
 public:
  /// Starts `program`, whose main() calls serve_forks() if its first argument is
  /// kForkServerArgument. Throws an environment Error if it cannot be executed.
  explicit ForkServer(std::string program);

  const std::string& program() const { return program_; }

 private:
  friend class ChildProcess;
  pid_t fork_with(int channel);

  const std::string program_;
  std::mutex one_at_a_time_;
  ChildProcess process_;
};

/// First argument of a program that ForkServer starts.
inline constexpr const char* kForkServerArgument = "--fork-server";
/// Serves requests for children until the client is gone, then ends the process. Returns only in
/// the forked children, each of which has a channel of its own. Call before any thread is started.
void serve_forks();

/// Returns the number of processors that this process may use; 1 if the system does not say.
std::size_t usable_cpus();

/// Returns the path of an executable beside the running one, or in bin/ beside the shared object
/// with this code if Orrery is loaded into another program. The file may be missing.
std::string sibling_program(const std::string& name);

/// Writes one length-prefixed message (4 bytes little endian, then the bytes) to a socket; blocks
/// while the socket is full. Returns false if the peer is gone or the socket fails. Never raises
/// SIGPIPE. Does not check the limit of read_message().
bool write_message(int descriptor, const std::string& bytes);
/// Blocks until a message arrives on a socket and returns the message; returns nothing if the peer
/// closed or the socket failed before its first byte. Throws an internal Error if a message is torn
/// or has more than 256 MiB.
std::optional<std::string> read_message(int descriptor);
/// Replaces `bytes` by the next message, in the memory of `bytes` if the message fits. Returns
/// false instead of nothing; blocks and throws as read_message() above.
bool read_message(int descriptor, std::string& bytes);

}  // namespace orrery
