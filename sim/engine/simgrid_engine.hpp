// Engine whose flows share links in SimGrid. Used where steps are simulated; one per process, one
// thread. Units: sim/estimates/engine/engine.hpp.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/estimates/engine/sharing_engine.hpp"

namespace orrery::sim {

/// Engine with SimGrid as the model of sharing.
class SimGridEngine : public estimates::SharingEngine {
 public:
  /// Constructs the engine with hosts of speed 1 and links that are up, with bandwidth 0. Throws an
  /// internal Error if the process has a SimGrid engine already. Construct no other one after its
  /// destruction: SimGrid keeps the callbacks of the first.
  SimGridEngine(std::uint32_t hosts, std::uint32_t links);
};

/// Returns a new engine; an EngineFactory. Throws as the constructor: a process has only one.
std::unique_ptr<estimates::Engine> simgrid_engine(std::uint32_t hosts, std::uint32_t links);

}  // namespace orrery::sim
