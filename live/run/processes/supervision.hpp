// The controller's end of its supervisor: what it was told at its start, and the agents' processes,
// which are the supervisor's children. One thread of its own listens; the controller ends at once
// when the supervisor is gone.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "live/run/processes/agent_processes.hpp"

namespace orrery::live {

class Supervision : public AgentProcesses {
 public:
  /// `descriptor`: the inherited socket. Waits for the supervisor's first message; throws a usage
  /// Error if there is no supervisor.
  explicit Supervision(int descriptor);
  ~Supervision() override;

  const ControllerStart& start() const { return start_; }
  /// A death of this controller would be the end of the run, because of `reason`.
  void cannot_go_on_elsewhere(const std::string& reason);

  /// What the operator wants, once.
  std::optional<StopRun> take_stop();
  /// Whether certificates have been renewed since the last call.
  bool take_renewed();

  void start(std::uint32_t rank, const AgentStart& start) override;
  void signal(const membership::Seat& seat, int number) override;
  std::vector<AgentState> states() override;
  void listen(std::function<void(const AgentState&)> ended) override;

 private:
  void read();
  void send(const SupervisorOrder& order);

  const int descriptor_;
  ControllerStart start_;
  std::mutex mutex_;  // of the four below
  bool renewed_ = false;
  std::optional<StopRun> stop_;
  std::vector<AgentState> unheard_;
  std::function<void(const AgentState&)> listener_;
  std::thread reader_;
};

}  // namespace orrery::live
