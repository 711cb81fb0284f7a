// Agents of one run, as seen by the controller: starts the agents, accepts their streams and
// transfers messages in both directions. An agent whose stream ends is not lost: the agent may
// reconnect, also to a successor of the controller, and its process has ended only once the owner
// of the process reports so. If an engine starts one process per rank, only rank 0's agent is a
// child of this run. The other agents are external: they connect by themselves, count as lost by
// silence, and are restarted by the engine. One thread calls all methods.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "live/control.pb.h"
#include "live/control/control_server.hpp"
#include "live/control/protocol.hpp"
#include "live/machine/host_clock.hpp"
#include "live/run/processes/agent_processes.hpp"
#include "live/transport/secrets.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Event of one agent: a message; otherwise the end of its process, with the cause; otherwise the
/// end of its stream.
struct Incoming {
  std::uint32_t rank = 0;
  std::uint32_t life = 0;  ///< Incarnation of the rank's process, see AgentGroup::life().
  std::optional<AgentMessage> message = {};
  /// Cause of the end, for example "killed by signal 9 (Killed)".
  std::optional<std::string> ended = {};
  /// Time of arrival.
  Clock::time_point at = {};
};

/// Loss of a rank's process and its cause.
struct RankDeath {
  std::uint32_t rank = 0;
  std::string cause;
};

/// Agents of one run. Owns the control server; the processes belong to `processes`. Each `rank`
/// must be below ranks(): other ranks throw std::out_of_range. Methods that start or signal
/// processes throw as AgentProcesses.
class AgentGroup {
 public:
  /// Starts an agent for each of the scenario's ranks that has none yet, and returns once these are
  /// ready to train; agents that are killed meanwhile are started again. Does not wait if an
  /// earlier controller left `place` (its restarts() is not 0). `place`: the run's folder and its
  /// secrets. `slots`: number of ranks that can have an agent, at least those of the scenario;
  /// restart_rank() starts the others. `processes` must outlive this object and have only agents
  /// below `slots`. Throws the errors that agents report, and an environment Error if an agent has
  /// ended more than three times, or is not ready after 30 s (120 s with external agents), if the
  /// secrets cannot be read or if the control server cannot listen.
  AgentGroup(AgentProcesses& processes, const ControllerStart& place, const Assignment& assignment,
             std::uint32_t slots);
  /// Orders all agents to stop, kills those that are not connected at once and the others after 2
  /// s, and waits at most 2 s more for their ends.
  ~AgentGroup();

  /// Returns the number of ranks that can have an agent.
  std::uint32_t ranks() const { return size_; }
  /// Returns the number of ranks with which the run begins.
  std::uint32_t initial_ranks() const;
  /// Returns the incarnation of the rank's newest process: counted from 0, also 0 if none was
  /// started; of an external agent a number that grows from process to process.
  std::uint32_t life(std::uint32_t rank) const { return lives_.at(rank); }
  /// Returns true if the rank's newest process has not ended, as far as receive_messages() has
  /// returned the end; false if none was started. An external agent runs from its hello until
  /// signal() kills it.
  bool is_running(std::uint32_t rank) const { return running_.at(rank); }
  /// Returns the process id of the newest process that has connected, on its own machine; 0 if none
  /// has.
  std::int64_t pid(std::uint32_t rank) const { return pids_.at(rank); }

  /// Blocks until an event other than a heartbeat has arrived, at the latest until `deadline`, and
  /// returns everything that arrived since the last call, in the order of arrival; perhaps nothing.
  /// Updates is_running() and pid(). Sends the assignment to each agent that says hello, but orders
  /// an external agent to stop whose process counts as lost.
  std::vector<Incoming> receive_messages(Clock::time_point deadline);
  /// Sends `message` to `rank`; may block while the stream is full. The message is lost if the
  /// agent has no open stream.
  void send_message(std::uint32_t rank, const ControllerMessage& message);
  /// Orders `rank` to stop; as send_message(). `want_parameters`: requests the hash of the
  /// parameters first, which receive_messages() returns.
  void send_stop(std::uint32_t rank, const std::string& reason, bool want_parameters);
  /// Sends signal `number` to the rank's process; no effect unless is_running(). An external agent
  /// can only be killed: its stream is closed and is_running() is false at once. Throws an internal
  /// Error if another signal is sent to an external agent.
  void signal(std::uint32_t rank, int number);
  /// Returns true if an engine, not this run, starts the agent of `rank`.
  bool is_elsewhere(std::uint32_t rank) const { return !place_.listen().empty() && rank != 0; }
  /// Returns true if the stream of the agent is open.
  bool is_connected(std::uint32_t rank);
  /// Starts the next process of `rank`, with the next incarnation, or the first process of a rank
  /// that has had none, and returns true. Returns false, without effect, while the last process
  /// runs or its stream is open: call again later. For an external agent starts nothing and returns
  /// is_running(), which is true once the engine's next process has connected.
  bool restart_rank(std::uint32_t rank);
  /// Records that the run has lost its training state: the destructor tells agents so.
  void record_lost_state() { farewell_ = kStateIsLost; }
  /// Closes all streams; the agents reconnect and say hello again. Messages in transit may be lost.
  void drop_streams();
  /// Records that training has begun: processes started from now on receive their state from a
  /// peer. Earlier ones begin with the initial state.
  void record_training_start() { training_ = true; }
  /// Lets the processes that are started from now on, until record_training_start(), begin with the
  /// checkpoint `from` or, if its attempt is 0, with step 0.
  void begin_from(const Resumption& from);

 private:
  /// Returns the folder of the run's secrets.
  std::string secrets_folder() const;
  /// Starts the control server.
  void start_server();
  /// Sends the assignment to an agent that has connected. Stops an external agent whose process
  /// already counts as lost.
  void send_assignment(std::uint32_t rank, std::uint32_t life);
  /// Starts the next process of `rank`.
  void start_agent(std::uint32_t rank);
  /// Blocks until every rank has reported ready.
  void await_ready();
  /// Adds an event to the mailbox and wakes receive_messages().
  void add_incoming(Incoming incoming);
  /// Handles events until all agents have ended, for at most `patience`.
  void wait_for_ends(std::chrono::milliseconds patience);
  /// Returns true if an agent's process is running or an external agent is connected.
  bool any_running();

  AgentProcesses& processes_;
  const ControllerStart place_;
  const Secrets secrets_;
  std::uint32_t size_;
  ControllerMessage assignment_;
  std::vector<std::uint32_t> lives_;
  std::vector<bool> started_;  ///< Ranks that have had a process.
  std::vector<bool> running_;
  bool training_ = false;
  std::string farewell_ = "the run is over";  ///< Reason of the last stop.
  std::vector<std::int64_t> pids_;
  std::mutex mutex_;  // Guards the five members below, which other threads fill.
  std::condition_variable arrived_;
  std::vector<Incoming> mailbox_;
  bool urgent_ = false;                  ///< True if the mailbox holds more than heartbeats.
  std::vector<bool> connected_;          ///< Open streams, by rank.
  std::vector<std::uint32_t> speaking_;  ///< Incarnation at the other end of the stream, by rank.
  /// Subscription to process ends. Destroyed before the mailbox that it fills, also if the
  /// constructor throws.
  struct Hearing {
    ~Hearing() { processes.set_exit_callback(nullptr); }
    AgentProcesses& processes;
  };
  const Hearing hearing_{processes_};
  std::unique_ptr<ControlServer> server_;
};

}  // namespace orrery::live
