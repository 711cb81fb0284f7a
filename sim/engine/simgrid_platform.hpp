// The platform on which SimGrid shares links among flows: links and nothing else. Every flow goes
// from the same host to the same other one, over the links that are laid out for it. Owned by
// sim/engine/simgrid_engine; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/engine/simgrid_compat.hpp"

namespace orrery::sim {

class SimGridPlatform {
 public:
  using Link = simgrid::s4u::Link;

  /// Starts SimGrid's one engine, with so many links of `bandwidth`.
  SimGridPlatform(std::uint32_t links, double bandwidth);

  simgrid::s4u::Engine& engine() { return *engine_; }
  Link* link(std::uint32_t number) const { return links_[number]; }
  /// Made, not started; over each link as often as it is there.
  simgrid::s4u::CommPtr flow(const std::vector<std::uint32_t>& over);

 private:
  class LaidOutZone;

  std::unique_ptr<simgrid::s4u::Engine> engine_;
  LaidOutZone* zone_ = nullptr;  ///< SimGrid's
  simgrid::s4u::Host *source_ = nullptr, *sink_ = nullptr;
  std::vector<Link*> links_;
};

}  // namespace orrery::sim
