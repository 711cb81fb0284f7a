// Controller's connection to its supervisor.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "live/run/processes/agent_processes.hpp"

namespace orrery::live {

/// Client of the supervisor: the settings of the controller's start, the operator's order to stop,
/// and the agents' processes, which are children of the supervisor. A thread of its own reads the
/// supervisor's messages. The other methods belong to one thread. Methods that send an order
/// (forbid_restart(), start(), signal()) throw an environment Error if the supervisor has ended;
/// the others then report nothing new.
class Supervision : public AgentProcesses {
 public:
  /// Blocks until the supervisor's first message arrives on the inherited socket `descriptor`,
  /// which this object owns from then on, and starts the reading thread. Throws a usage Error if
  /// there is no supervisor.
  explicit Supervision(int descriptor);
  ~Supervision() override;

  /// Returns the settings of the controller's start.
  const ControllerStart& start() const { return start_; }
  /// Tells the supervisor that no successor can take over if this controller dies, because of
  /// `reason`, which must not be empty: an empty one would allow successors again. A later call
  /// replaces the reason.
  void forbid_restart(const std::string& reason);

  /// Returns the operator's newest order to stop, once; nothing if no order has arrived since the
  /// last call.
  std::optional<StopRun> take_stop();
  /// Returns true if certificates have been renewed since the last call.
  bool take_renewed();

  void start(std::uint32_t rank, const AgentStart& start) override;
  void signal(const membership::Seat& seat, int number) override;
  std::vector<AgentState> states() override;
  void set_exit_callback(std::function<void(const AgentState&)> ended) override;

 private:
  /// Reads the supervisor's messages until the connection ends.
  void read();
  /// Sends an order. Throws an environment Error if the supervisor is gone.
  void send_order(const SupervisorOrder& order);

  const int descriptor_;
  ControllerStart start_;
  std::mutex mutex_;  // Guards the four members below.
  bool renewed_ = false;
  std::optional<StopRun> stop_;
  std::vector<AgentState> unheard_;
  std::function<void(const AgentState&)> listener_;
  std::thread reader_;
};

}  // namespace orrery::live
