// In-flight communications of a step on an engine. Owned by the execution of a training step; one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/plan.hpp"

namespace orrery::estimates {

/// In-flight communications: each is coded first, then passes through the phases of its plan one
/// after the other; the flows of a phase run at once, and the phase's latency follows them. Not
/// thread-safe.
class Flights {
 public:
  /// Starts without communications. `failed` is called with the phase of each flow that failed;
  /// that communication does not go further. The engine must outlive this object, and this object
  /// the flows and timers that it starts there.
  Flights(Engine& engine, std::function<void(const CommPhase&)> failed)
      : engine_(engine), failed_(std::move(failed)) {}

  /// Starts a communication of `bytes`, after `coding` seconds for codecs. `landed` is called once
  /// at the end, unless a flow fails: within this call if the plan has no phases and `coding` is 0.
  /// The plan must outlive the communication, and every phase must have a flow.
  void start(const CommPlan& plan, double bytes, Seconds coding, std::function<void()> landed);
  /// Discards all communications, also those started later: neither `landed` nor `failed` is called
  /// any more. Flows on the engine continue.
  void end() { over_ = true; }
  /// Accepts communications again. Call only if all earlier ones have landed.
  void accept_flights() { over_ = false; }

 private:
  /// Communication in flight. Records are reused.
  struct Flight {
    const CommPlan* plan = nullptr;
    double bytes = 0;
    std::function<void()> landed;
    std::uint32_t phase = 0, parts_left = 0;
  };
  /// Starts the next phase of a communication, or ends the communication after the last one.
  void next_phase(std::uint32_t number);
  /// Ends one flow of the current phase.
  void part_ended(std::uint32_t number, bool ok);

  Engine& engine_;
  const std::function<void(const CommPhase&)> failed_;
  std::vector<Flight> flights_;
  /// Indices of unused records.
  std::vector<std::uint32_t> free_;
  bool over_ = false;
};

}  // namespace orrery::estimates
