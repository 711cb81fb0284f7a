// Where the processes of a run's ranks are: whoever owns them starts and signals them and tells how
// they ended. The supervisor owns them (OwnedProcesses); a controller reaches them through it
// (supervision.hpp).
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
#include "policies/membership/protocol.hpp"

namespace orrery::live {

class AgentProcesses {
 public:
  virtual ~AgentProcesses() = default;
  /// Starts the next process of a rank; its `life` is in `start`.
  virtual void start(std::uint32_t rank, const AgentStart& start) = 0;
  /// Nothing if that process has ended.
  virtual void signal(const membership::Seat& seat, int number) = 0;
  /// The newest process of every rank that has had one.
  virtual std::vector<AgentState> states() = 0;
  /// From now on `ended` is called, from any thread, with every process that has ended, once.
  virtual void listen(std::function<void(const AgentState&)> ended) = 0;
};

/// Children of this process; one thread. Nothing is left of them when this goes.
class OwnedProcesses {
 public:
  /// Agents run the executable `program`.
  explicit OwnedProcesses(std::string program) : program_(std::move(program)) {}
  ~OwnedProcesses();
  OwnedProcesses(const OwnedProcesses&) = delete;
  OwnedProcesses& operator=(const OwnedProcesses&) = delete;

  /// One that cannot be started has ended, with the reason as its cause.
  void start(std::uint32_t rank, const AgentStart& start);
  void signal(const membership::Seat& seat, int number);
  std::vector<AgentState> states() const;
  /// Descriptors that become readable when a process ends.
  std::vector<int> channels() const;
  /// Those that have ended since the last call.
  std::vector<AgentState> take_ended();

 private:
  struct Agent {
    std::uint32_t life = 0;
    std::optional<ChildProcess> process;  ///< none: it has ended
    std::string cause;
    bool told = false;
  };
  const std::string program_;
  std::map<std::uint32_t, Agent> agents_;  ///< by rank
};

}  // namespace orrery::live
