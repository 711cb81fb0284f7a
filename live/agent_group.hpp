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
#include "live/secrets.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// What one agent said; nothing: its stream ended.
struct Incoming {
  std::uint32_t rank = 0;
  std::uint32_t life = 0;  ///< which process of that rank
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
  AgentGroup(const std::string& program, const Assignment& assignment, std::uint32_t ranks);
  ~AgentGroup();

  std::uint32_t ranks() const { return size_; }
  pid_t pid(std::uint32_t rank) const { return agents_.at(rank).pid(); }
  /// Which process of that rank it is, from 0.
  std::uint32_t life(std::uint32_t rank) const { return lives_.at(rank); }

  /// What has arrived, at the latest at `deadline`, or as soon as there is anything. Who says
  /// hello is told its work.
  std::vector<Incoming> receive(Clock::time_point deadline);
  void send(std::uint32_t rank, const ControllerMessage& message);
  void send_stop(const std::string& reason, bool want_parameters);
  void signal(std::uint32_t rank, int number);
  /// Agents that have ended since the last call. Does not block.
  std::vector<RankDeath> take_deaths();
  /// Sees to it that the process of that rank is gone, and says how it ended; one that has only
  /// lost its stream is killed.
  std::string bury(std::uint32_t rank);
  /// Whether that agent's stream is open.
  bool connected(std::uint32_t rank);
  /// Starts the next process of a rank whose last one is gone. False while its stream has not
  /// ended.
  bool restart(std::uint32_t rank);

 private:
  void start_agent(std::uint32_t rank);
  /// Waits until every rank has sent a message of this kind.
  void await(AgentMessage::KindCase kind);
  /// Waits a moment for the cause behind a broken stream: the process that died. Throws what a
  /// rank reported as an error of its own.
  RankDeath explain(std::uint32_t suspect);
  std::optional<RankDeath> find_death();

  const std::string program_;
  RunFolder folder_;
  const Secrets secrets_;
  std::uint32_t size_;
  ControllerMessage assignment_;
  std::mutex mutex_;  // of the four below, which the transport's threads fill
  std::condition_variable arrived_;
  std::vector<Incoming> mailbox_;
  std::vector<bool> connected_;  ///< by rank
  std::vector<std::uint32_t> speaking_;  ///< by rank: life at the other end of the stream
  std::unique_ptr<ControlServer> server_;
  std::vector<ChildProcess> agents_;
  std::vector<std::uint32_t> lives_;
  std::vector<Incoming> said_;  ///< failures seen so far
  std::vector<bool> buried_;
};

}  // namespace orrery::live
