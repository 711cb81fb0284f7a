#include "sim/engine/simgrid_engine.hpp"

#include "sim/engine/simgrid_shares.hpp"

namespace orrery::sim {

SimGridEngine::SimGridEngine(std::uint32_t hosts, std::uint32_t links)
    : SharingEngine(hosts, links, std::make_unique<SimGridShares>(links)) {}

std::unique_ptr<estimates::Engine> simgrid_engine(std::uint32_t hosts, std::uint32_t links) {
  return std::make_unique<SimGridEngine>(hosts, links);
}

}  // namespace orrery::sim
