#include "sim/engine/step_engine.hpp"

#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/engine/max_min_shares.hpp"

namespace orrery::sim {

std::unique_ptr<estimates::Engine> step_engine(std::uint32_t hosts, std::uint32_t links) {
  if (hosts > kMostSimGridWorkers) return estimates::max_min_engine(hosts, links, 0);
  return simgrid_engine(hosts, links);
}

}  // namespace orrery::sim
