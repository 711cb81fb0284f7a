// Engine in which flows share links: SimGrid's fluid model, driven by callbacks alone (no actors).
// SimGrid receives only flows that share a link. A computation has its host for itself, and a flow
// without other flows on its links ends when its own links allow; both are dates in a calendar. A
// flow that meets another flow goes to SimGrid with its remaining bytes, and stays there. This
// avoids the quadratic list of activities of SimGrid 3.32. Used where steps are simulated; one per
// process, one thread. Units: sim/estimates/engine/engine.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "sim/estimates/engine/engine.hpp"

namespace orrery::sim {

/// Engine that simulates the sharing of links. At one instant the callbacks of timers run first,
/// then those of ended and failed activities in the order of their starts, and so on until no
/// callback is due; ends within 1 ns are one instant.
class SimGridEngine : public estimates::Engine {
 public:
  /// Constructs the engine with hosts of speed 1 and links that are up, with bandwidth 0. Throws an
  /// internal Error if the process has a SimGrid engine already. Construct no other one after its
  /// destruction: SimGrid keeps the callbacks of the first.
  SimGridEngine(std::uint32_t hosts, std::uint32_t links);
  ~SimGridEngine() override;

  double now() const override;
  std::uint32_t hosts() const override;
  std::uint32_t links() const override;
  void after(double delay, std::function<void()> what) override;
  Handle start_computation(std::uint32_t host, double work, Done done) override;
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) override;
  void set_speed(std::uint32_t host, double speed) override;
  void set_bandwidth(std::uint32_t link, double bandwidth) override;
  /// Limit: a failed flow that meets a new flow on another of its links before its callback runs,
  /// at the same instant, continues instead of failing.
  void set_link_up(std::uint32_t link, bool up) override;
  void run() override;
  void cancel_all() override;
  std::uint64_t events() const override;

  /// Returns the number of flows given to SimGrid since the start, because they met other flows.
  std::uint64_t shared_flows() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a new engine; an EngineFactory. Throws as the constructor: a process has only one.
std::unique_ptr<estimates::Engine> simgrid_engine(std::uint32_t hosts, std::uint32_t links);

}  // namespace orrery::sim
