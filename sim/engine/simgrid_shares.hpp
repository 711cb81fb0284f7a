// Sharing of links by SimGrid's fluid model, driven by callbacks alone (no actors). SimGrid
// receives only flows that share a link, which avoids the quadratic list of activities of
// SimGrid 3.32. Owned by sim/engine/simgrid_engine; one per process, one thread. Units:
// sim/estimates/engine/link_shares.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/simgrid_compat.hpp"
#include "sim/engine/simgrid_platform.hpp"
#include "sim/engine/simgrid_stops.hpp"
#include "sim/estimates/engine/link_shares.hpp"

namespace orrery::sim {

/// Flows in SimGrid.
class SimGridShares : public estimates::LinkShares {
 public:
  /// Constructs `links` links. Throws an internal Error if the process has a SimGrid engine
  /// already. Construct no other one after its destruction: SimGrid keeps the callbacks of the
  /// first.
  explicit SimGridShares(std::uint32_t links);

  void start_flow(std::uint32_t place, std::span<const std::uint32_t> links,
                  double units) override;
  void cancel_flow(std::uint32_t place) override;
  void set_bandwidth(std::uint32_t link, double bandwidth) override;
  void stop_at(double date) override { stops_.at(date); }
  void wake_now() override { stops_.wake_now(); }
  void pass_stops(double precision) override { stops_.advance_past_now(precision); }
  void clear_stops() override { stops_.clear(); }
  void run() override;

 private:
  /// Reports the end of a flow, unless the flow was cancelled.
  void end_flow(const simgrid::s4u::Activity& activity);

  SimGridPlatform platform_;
  SimGridStops stops_{[this] { listener().on_wake(); }};
  std::vector<simgrid::s4u::CommPtr> flows_;      ///< newest flow of each place
  std::vector<simgrid::s4u::CommPtr> cancelled_;  ///< flows that SimGrid still looks at
};

}  // namespace orrery::sim
