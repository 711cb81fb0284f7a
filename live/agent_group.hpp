// The agents of one run, from the controller's side: starts them as child processes, lets them
// in, carries messages both ways, and sees to it that nothing is left when it goes. One thread
// calls it, except where noted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/process.hpp"
#include "live/control.pb.h"
#include "live/control_server.hpp"
#include "live/host_clock.hpp"
#include "live/run_folder.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// What one agent said; nothing: its stream ended.
struct Incoming {
  std::uint32_t rank = 0;
  std::optional<AgentMessage> message;
  Clock::time_point at;
};

/// Why a rank is no longer there.
struct RankDeath {
  std::uint32_t rank = 0;
  std::string cause;  ///< "killed by signal 9 (Killed)"
};

class AgentGroup {
 public:
  /// Starts `ranks` agents (the executable `program`) and returns when all are ready to train.
  /// Throws an environment Error if one of them cannot.
  AgentGroup(const std::string& program, const Scenario& scenario, std::uint32_t ranks);
  ~AgentGroup();

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(agents_.size()); }
  pid_t pid(std::uint32_t rank) const { return agents_.at(rank).pid(); }

  /// What has arrived, at the latest at `deadline`, or as soon as there is anything.
  std::vector<Incoming> receive(Clock::time_point deadline);
  void send(std::uint32_t rank, const ControllerMessage& message);
  void send_stop(const std::string& reason, bool want_parameters);
  void kill(std::uint32_t rank);
  /// An agent that has ended, if any. Does not block.
  std::optional<RankDeath> find_death();
  /// Waits a moment for the cause behind a broken stream: the process that died, or else what the
  /// ranks themselves say. Throws what a rank reported as an error of its own.
  RankDeath explain(std::uint32_t suspect);

 private:
  void start_agents(const std::string& program);
  void assign(const Scenario& scenario);
  /// Waits until every rank has sent a message of this kind; they are appended by rank.
  std::vector<AgentMessage> collect(AgentMessage::KindCase kind);

  RunFolder folder_;
  std::string token_;
  std::uint32_t size_;
  std::mutex mutex_;  // of the two below, which the transport's threads fill
  std::condition_variable arrived_;
  std::vector<Incoming> mailbox_;
  std::vector<Incoming> said_;  ///< failures seen so far
  std::unique_ptr<ControlServer> server_;
  std::vector<ChildProcess> agents_;
};

}  // namespace orrery::live
