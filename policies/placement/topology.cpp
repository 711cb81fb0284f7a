#include "policies/placement/topology.hpp"

#include <algorithm>

#include "policies/placement/consolidated.hpp"

namespace orrery {
namespace {

/// Idle nodes of one unit, in order.
using Idle = std::vector<std::uint32_t>;

std::vector<Idle> idle_by_unit(const FreeGpus& free) {
  std::vector<Idle> units((free.nodes() + free.nodes_per_unit() - 1) / free.nodes_per_unit());
  const std::uint32_t size = free.gpus_per_node();
  for (std::uint32_t node = free.first_with(size); node < free.nodes();
       node = free.first_with(size, node + 1)) {
    units[node / free.nodes_per_unit()].push_back(node);
  }
  return units;
}

/// The nodes for a job of so many; nothing if there are fewer.
std::vector<std::uint32_t> choose(std::vector<Idle> units, std::size_t count) {
  std::stable_sort(units.begin(), units.end(),
                   [](const Idle& a, const Idle& b) { return a.size() > b.size(); });
  // Searches from the back: the smallest sufficient unit, and of equal ones the first.
  const auto behind = std::find_if(units.begin(), units.end(),
                                   [count](const Idle& unit) { return unit.size() < count; });
  if (behind != units.begin()) {
    const std::size_t least = (behind - 1)->size();
    const auto tightest = std::find_if(
        units.begin(), units.end(), [least](const Idle& unit) { return unit.size() == least; });
    return {tightest->begin(), tightest->begin() + static_cast<std::ptrdiff_t>(count)};
  }
  std::vector<std::uint32_t> nodes;
  for (const Idle& unit : units) {
    for (const std::uint32_t node : unit) {
      if (nodes.size() < count) nodes.push_back(node);
    }
  }
  if (nodes.size() < count) return {};
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

std::optional<GpuRuns> TopologyPlacer::place_gpus(std::uint32_t gpus, const ParallelLayout& layout,
                                                  FreeGpus& free) const {
  const std::uint32_t size = free.gpus_per_node();
  if (gpus <= size) return ConsolidatedPlacer().place_gpus(gpus, layout, free);
  const std::uint32_t nodes = (gpus + size - 1) / size;
  if (free.nodes_with(size) < nodes) return {};
  const std::vector<std::uint32_t> chosen = choose(idle_by_unit(free), nodes);
  GpuRuns out;
  std::uint32_t left = gpus;
  for (const std::uint32_t node : chosen) {
    free.take_gpus(node, std::min(size, left), out);
    left -= std::min(size, left);
  }
  return out;
}

}  // namespace orrery
