// Platform on which SimGrid shares links among flows: only links matter. Every flow goes from the
// same source host to the same sink host, over its own list of links. Owned by
// sim/engine/simgrid_shares; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/engine/simgrid_compat.hpp"

namespace orrery::sim {

/// SimGrid platform of links.
class SimGridPlatform {
 public:
  using Link = simgrid::s4u::Link;

  /// Starts SimGrid's single engine with `links` links of `bandwidth`, sets its options for the
  /// whole process, and silences its log. The process keeps its handlers of SIGINT, SIGSEGV and
  /// SIGBUS. Construct only if the process has no SimGrid engine.
  SimGridPlatform(std::uint32_t links, double bandwidth);

  simgrid::s4u::Engine& engine() { return *engine_; }
  /// Returns a link by number, below the number of links.
  Link* link(std::uint32_t number) const { return links_[number]; }
  /// Returns a new flow without bytes, not started; it crosses each link as often as `over`
  /// contains it. Every number must be below the number of links (not checked). Start the flow
  /// before the next call, which replaces the list of links.
  simgrid::s4u::CommPtr flow(std::span<const std::uint32_t> over);

 private:
  class LaidOutZone;

  std::unique_ptr<simgrid::s4u::Engine> engine_;
  LaidOutZone* zone_ = nullptr;  ///< owned by SimGrid
  simgrid::s4u::Host *source_ = nullptr, *sink_ = nullptr;
  std::vector<Link*> links_;
};

}  // namespace orrery::sim
