#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

void PhaseBuilder::close(double share, double rounds, Way all) {
  phases_.push_back({flows_.drain_loads(), share, rounds, all.far, {all.latency}});
}

PhaseBuilder::Way PhaseBuilder::worst_way(const GpuGroup& group) const {
  // Path costs depend only on whether domain, rail and unit are equal, so the first and the last
  // member see all kinds of paths. Rings of nodes are an exception: there the path to the opposite
  // side is the longest.
  Way worst;
  for (const GpuId from : {group.front(), group.back()}) {
    for (const GpuId to : group) keep_longer(worst, way(from, to));
  }
  return worst;
}

PhaseBuilder::Way PhaseBuilder::add_ring(const GpuGroup& ring, bool closed, std::uint32_t times) {
  RingEdges around;
  const std::size_t edges = closed ? ring.size() : ring.size() - 1;
  for (std::size_t i = 0; i < edges; ++i) {
    const GpuId next = ring[(i + 1) % ring.size()];
    flows_.add_flows(ring[i], next, times);
    around.add(way(ring[i], next));
  }
  return around.mean();
}

}  // namespace orrery::estimates
