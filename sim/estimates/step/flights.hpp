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

/// In-flight communications of a plan: each is coded first, then passes through its phases one
/// after the other; the flows of a phase run at once, and the phase's latency follows them. Not
/// thread-safe.
///
/// Copies the flows and links of the plan into tables: a step whose ranks all differ goes through
/// hundreds of thousands of communications, and each access to the plan itself misses the caches
/// several times.
class Flights {
 public:
  /// Starts without communications; `comms` are those of the plan, and every phase must have a
  /// flow. `failed` is called with the phase of each flow that failed; that communication does not
  /// go further. The engine and `comms` must outlive this object, and this object the flows and
  /// timers that it starts there.
  Flights(Engine& engine, const std::vector<CommPlan>& comms,
          std::function<void(const CommPhase&)> failed);

  /// Starts a communication of `bytes`, given by its index in the plan, after `coding` seconds for
  /// codecs. `landed` is called once at the end, unless a flow fails: within this call if the
  /// communication has no phases and `coding` is 0.
  void start(std::uint32_t comm, double bytes, Seconds coding, std::function<void()> landed);
  /// Discards all communications, also those started later: neither `landed` nor `failed` is called
  /// any more. Flows on the engine continue.
  void end() { over_ = true; }
  /// Accepts communications again. Call only if all earlier ones have landed.
  void accept_flights() { over_ = false; }

 private:
  /// Communication in flight. Records are reused.
  struct Flight {
    std::uint32_t comm = 0;
    std::uint32_t next = 0;  ///< index in parts_ of the first flow of the next phase
    std::uint32_t parts_left = 0;
    double bytes = 0;
    std::function<void()> landed;
  };
  /// Flow of a phase. The links and the flows of the next one follow.
  struct Part {
    double share = 0;
    double latency = 0;            ///< seconds that follow its phase
    std::uint32_t first_link = 0;  ///< index in links_
    bool ends_phase = false;
  };
  /// Starts the next phase of a communication, or ends the communication after the last one.
  void next_phase(std::uint32_t number);
  /// Ends one flow of the current phase.
  void part_ended(std::uint32_t number, bool ok);
  /// Returns the newest phase that a communication has begun.
  const CommPhase& current_phase(const Flight& flight) const;

  Engine& engine_;
  const std::vector<CommPlan>& comms_;
  std::vector<std::uint32_t> first_parts_;  ///< first part of each communication
  std::vector<Part> parts_;
  std::vector<std::uint32_t> links_;
  const std::function<void(const CommPhase&)> failed_;
  std::vector<Flight> flights_;
  /// Indices of unused records.
  std::vector<std::uint32_t> free_;
  bool over_ = false;
};

}  // namespace orrery::estimates
