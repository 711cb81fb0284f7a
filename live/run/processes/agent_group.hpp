// The agents of one run, from the controller's side: has them started, lets them in, and carries
// messages both ways. An agent whose stream ends is not gone: it may come back, also to another
// controller; its process ends when its owner says so. Where an engine has started one process a
// rank, only rank 0's agent is a child of this run: the others come by themselves, die by their
// silence, and are replaced by whoever starts them again. One thread calls it.
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
#include "live/machine/host_clock.hpp"
#include "live/run/processes/agent_processes.hpp"
#include "live/transport/secrets.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// What has come from one agent: a message; else the end of its process, with its cause; else the
/// end of its stream.
struct Incoming {
  std::uint32_t rank = 0;
  std::uint32_t life = 0;  ///< which process of that rank
  std::optional<AgentMessage> message = {};
  std::optional<std::string> ended = {};  ///< "killed by signal 9 (Killed)"
  Clock::time_point at = {};
};

/// Why a rank is no longer there.
struct RankDeath {
  std::uint32_t rank = 0;
  std::string cause;
};

class AgentGroup {
 public:
  /// `place`: the run's folder, its secrets. Starts an agent for each of `ranks` that has none
  /// yet (`processes` outlives this) and returns when all are ready to train, those that were
  /// killed meanwhile started again; with a place that an
  /// earlier controller left, at once. Throws what an agent reports as an error of its own, and an
  /// environment Error if one cannot start.
  AgentGroup(AgentProcesses& processes, const ControllerStart& place, const Assignment& assignment,
             std::uint32_t ranks);
  ~AgentGroup();  ///< ends them

  std::uint32_t ranks() const { return size_; }
  /// Which process of that rank is the newest, from 0.
  std::uint32_t life(std::uint32_t rank) const { return lives_.at(rank); }
  bool running(std::uint32_t rank) const { return running_.at(rank); }
  /// Of its newest process that has said hello, on the machine where it runs; 0: none has.
  std::int64_t pid(std::uint32_t rank) const { return pids_.at(rank); }

  /// What has arrived, at the latest at `deadline`, or as soon as there is more than heartbeats.
  /// Who says hello is told its work.
  std::vector<Incoming> receive(Clock::time_point deadline);
  /// Lost if that agent's stream is not open.
  void send(std::uint32_t rank, const ControllerMessage& message);
  void send_stop(std::uint32_t rank, const std::string& reason, bool want_parameters);
  void signal(std::uint32_t rank, int number);
  /// Whether that agent's stream is open.
  bool connected(std::uint32_t rank);
  /// Starts the next process of a rank. False while the last one is there, or while nobody has
  /// started the next one elsewhere.
  bool restart(std::uint32_t rank);
  /// Their streams end, and they open others.
  void drop_streams();
  /// From now on a process that is started takes its state from a peer.
  void training() { training_ = true; }

 private:
  bool elsewhere(std::uint32_t rank) const { return !place_.listen().empty() && rank != 0; }
  std::string secrets_folder() const;
  void listen();
  void greet(std::uint32_t rank, std::uint32_t life);
  void start_agent(std::uint32_t rank);
  /// Waits until every rank has said that it is ready.
  void await_ready();
  void put(Incoming incoming);
  void wait_for_ends(std::chrono::milliseconds patience);
  bool any_running();

  AgentProcesses& processes_;
  const ControllerStart place_;
  const Secrets secrets_;
  std::uint32_t size_;
  ControllerMessage assignment_;
  std::vector<std::uint32_t> lives_;
  std::vector<bool> running_;
  bool training_ = false;
  std::vector<std::int64_t> pids_;
  std::mutex mutex_;  // of the five below, which other threads fill
  std::condition_variable arrived_;
  std::vector<Incoming> mailbox_;
  bool urgent_ = false;                  ///< there is more than heartbeats in it
  std::vector<bool> connected_;          ///< by rank
  std::vector<std::uint32_t> speaking_;  ///< by rank: life at the other end of the stream
  struct Hearing {  ///< ends before what it fills, also when the constructor throws
    ~Hearing() { processes.listen(nullptr); }
    AgentProcesses& processes;
  };
  const Hearing hearing_{processes_};
  std::unique_ptr<ControlServer> server_;
};

}  // namespace orrery::live
