// In-flight communications of a step on an engine. Owned by the execution of a training step; one
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/tables/huge_pages.hpp"
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
  /// communication has no phases and `coding` is 0. `hint`: memory that `landed`
  /// accesses first; its last address is unused.
  void start(std::uint32_t comm, double bytes, Seconds coding, std::function<void()> landed,
             const MemoryHint& hint = {});
  /// Returns the memory of the first flow of a communication.
  const void* memory_of(std::uint32_t comm) const { return &parts_[comm]; }
  /// Discards all communications, also those started later: neither `landed` nor `failed` is called
  /// any more. Flows on the engine continue.
  void end() { over_ = true; }
  /// Accepts communications again. Call only if all earlier ones have landed.
  void accept_flights() { over_ = false; }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// Communication in flight. Records are reused.
  struct Flight {
    std::uint32_t comm = 0;
    std::uint32_t next = kNone;  ///< first flow of the next phase; kNone: all have begun
    std::uint32_t parts_left = 0;
    double bytes = 0;
    double latency = 0;  ///< seconds that follow the current phase
    std::function<void()> landed;
    MemoryHint hint;
  };
  /// Flow of a phase in one cache line, without the links of a flow that has many.
  struct alignas(64) Part {
    double share = 0;
    double latency = 0;           ///< seconds that follow its phase
    std::uint32_t next = kNone;   ///< flow that follows
    std::uint32_t far_links = 0;  ///< index in far_links_, if `near_links` has too little room
    std::uint32_t links = 0;      ///< number of links
    bool exists = false;          ///< false in place of the flows of a communication without any
    bool ends_phase = false;
    std::array<std::uint32_t, 8> near_links{};
  };
  /// Adds a flow behind another one, the newest of its communication, or in place of the first flow
  /// of a communication. Returns the index of the flow.
  std::uint32_t add_part(std::uint32_t before, const WideFlow& flow, Seconds latency);
  std::span<const std::uint32_t> links_of(const Part& part) const;
  /// Starts the next phase of a communication, or ends the communication after the last one.
  void next_phase(std::uint32_t number);
  /// Ends one flow of the current phase.
  void part_ended(std::uint32_t number, bool ok);
  /// Returns the newest phase that a communication has begun.
  const CommPhase& current_phase(const Flight& flight) const;

  Engine& engine_;
  const std::vector<CommPlan>& comms_;
  HugeVector<Part> parts_;  ///< the first flow of each communication, then the others
  std::vector<std::uint32_t> far_links_;
  const std::function<void(const CommPhase&)> failed_;
  HugeVector<Flight> flights_;
  /// Indices of unused records.
  std::vector<std::uint32_t> free_;
  bool over_ = false;
};

}  // namespace orrery::estimates
