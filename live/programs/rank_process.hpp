// Process of one rank of a user's program with its socket: start, messages, waiting. One thread.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/process.hpp"
#include "live/group/frames.hpp"

namespace orrery::live {

/// Start of the process of one rank.
struct RankStart {
  std::size_t rank = 0;
  std::string store_path;
  bool is_replacement = false;  ///< the process joins the others at a step of theirs
};

/// Process of one rank that was started.
struct StartedRank {
  ChildProcess process;
  bool is_warm = false;  ///< forked from a process that had imported PyTorch
};

/// Starts the process of one rank, with its socket and a process group of its own.
using RankStarter = std::function<StartedRank(const RankStart& start)>;

/// Descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

/// Process of one rank that another process has started, with its connection.
struct TakenProcess {
  pid_t pid = -1;
  Descriptor channel;
  std::string exit_file;  ///< file with the exit code, which the process writes at its end
};

/// Process of one rank with its connection.
struct RankProcess {
  std::variant<ChildProcess, TakenProcess> process;
  Descriptor ended;  ///< readable once the process has ended
  FrameReader reader;
  bool is_open = true;     ///< the connection can be read
  bool is_reaped = false;  ///< exit_status() has returned the status
  bool is_warm = false;    ///< forked from a process that had imported PyTorch
  double started_s = 0;    ///< instant of the start on the monotonic clock
  bool has_code = true;    ///< false: exit_status() does not know how the process ended

  pid_t pid() const;
  int channel() const;  ///< this process's end of the connection
  /// Returns true if the process has ended; does not reap it.
  bool has_ended() const;

  /// Sends signal `number` to the processes of the rank's group, without waiting; does nothing once
  /// the rank is reaped.
  void signal(int number) const;
  /// Reaps the process if it has ended and returns its status; nothing while it runs. Exit code 255
  /// if nobody knows the code.
  std::optional<ExitStatus> exit_status();
  /// Returns a text about the end with this status, for example "exit code 3".
  std::string description(const ExitStatus& status) const;
};

/// Returns the instant now in seconds of the monotonic clock, which the ranks share.
double monotonic_s();

/// Starts a process. Throws an environment Error if the process cannot be watched, and the errors
/// of `starter`; no process is left then.
RankProcess start_rank(const RankStarter& starter, const RankStart& start);
/// Returns the process `pid` of another starter, connected over `channel`. Throws an environment
/// Error if the process cannot be watched.
RankProcess take_rank(pid_t pid, Descriptor channel, std::string exit_file);
/// Adds the descriptors of the process that become readable with news.
void add_waiting(std::vector<pollfd>& waiting, const RankProcess& process);
/// Hands all messages that have arrived to `handle`. Returns the text of the newest exception of
/// `handle`; empty if there was none.
std::string read_messages(RankProcess& process, const std::function<void(const Fields&)>& handle);
/// Returns a socket that listens at `path`, in place of an earlier one. Throws an environment Error
/// if it cannot, or if the path is too long.
Descriptor listening_socket(const std::string& path);
/// Sends one frame without blocking. Returns false if the peer is gone or does not read.
bool send_frame(int descriptor, const Fields& fields);
/// Adds the bytes that have arrived. Returns false at the end of the stream.
bool receive_bytes(int descriptor, FrameReader& reader);

}  // namespace orrery::live
