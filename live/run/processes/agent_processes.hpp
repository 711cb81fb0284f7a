// Processes of a run's ranks. The owner of the processes starts and signals them and reports their
// ends. The supervisor owns the processes (OwnedProcesses); a controller reaches them through the
// supervisor (supervision.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/process.hpp"
#include "live/supervision.pb.h"
#include "live/membership/protocol.hpp"

namespace orrery::live {

/// Interface to the owner of the ranks' processes. start() and signal() throw an environment Error
/// if the owner is another process and has ended.
class AgentProcesses {
 public:
  virtual ~AgentProcesses() = default;
  /// Starts the next process of `rank`, whose incarnation is in `start`. A process that cannot be
  /// started is reported as ended.
  virtual void start(std::uint32_t rank, const AgentStart& start) = 0;
  /// Sends signal `number` to the process `seat`; does nothing if the process has ended or is not
  /// the newest of its rank.
  virtual void signal(const membership::Seat& seat, int number) = 0;
  /// Returns the newest process of every rank that has had a process, with the cause if it has
  /// ended; in a controller, as of the controller's start.
  virtual std::vector<AgentState> states() = 0;
  /// Sets the callback for processes that end; called from any thread, once per process. Ends that
  /// no callback has received are reported to the next callback within this call. A null callback
  /// ends the calls. The callback must not call this object.
  virtual void set_exit_callback(std::function<void(const AgentState&)> ended) = 0;
};

/// Child processes of this process. Kills the remaining children on destruction. Single-threaded.
class OwnedProcesses {
 public:
  /// Starts without processes. Agents run the executable `program`.
  explicit OwnedProcesses(std::string program) : program_(std::move(program)) {}
  ~OwnedProcesses();
  OwnedProcesses(const OwnedProcesses&) = delete;
  OwnedProcesses& operator=(const OwnedProcesses&) = delete;

  /// Starts the next process of `rank`; does nothing while a process of the rank runs, as far as
  /// drain_exited() has returned no end. A process that cannot be started counts as ended, with the
  /// reason as its cause: no error is thrown.
  void start(std::uint32_t rank, const AgentStart& start);
  /// Sends signal `number` to the process `seat`; does nothing if the process has ended or `seat`
  /// is an earlier incarnation.
  void signal(const membership::Seat& seat, int number);
  /// Returns the newest process of every rank that has had a process, by rank; a process whose end
  /// drain_exited() has not found counts as running.
  std::vector<AgentState> states() const;
  /// Returns descriptors of the running processes, each of which becomes readable when its process
  /// ends.
  std::vector<int> channels() const;
  /// Returns the processes that have ended since the last call, or that could not be started, by
  /// rank; each once. Blocks for up to a second for each process that has closed its channel but
  /// not ended, and then kills the process.
  std::vector<AgentState> drain_exited();

 private:
  /// Newest process of one rank.
  struct Agent {
    std::uint32_t life = 0;
    std::optional<ChildProcess> process;  ///< Running process; none if the process has ended.
    std::string cause;
    /// True if the end has been returned by drain_exited().
    bool told = false;
  };
  const std::string program_;
  std::map<std::uint32_t, Agent> agents_;  ///< Processes by rank.
};

}  // namespace orrery::live
