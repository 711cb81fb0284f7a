#include "policies/placement/per_node.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// Nodes, those with the fewest free GPUs first.
using Nodes = std::vector<std::uint32_t>;

/// Returns at most `most` nodes with at least `each` free GPUs.
Nodes best_fit_nodes(const FreeGpus& free, std::uint32_t each, std::size_t most) {
  Nodes nodes;
  for (std::uint32_t here = each; here <= free.gpus_per_node() && nodes.size() < most; ++here) {
    for (std::uint32_t node = free.first_with(here); node < free.nodes() && nodes.size() < most;
         node = free.first_with(here, node + 1)) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

/// Returns the first `count` nodes of the smallest sufficient unit, otherwise of the largest units;
/// fewer if the units have no more groups of `group` nodes. `count` is a multiple of `group`.
Nodes nodes_of_few_units(const Nodes& fitting, const FreeGpus& free, std::size_t count,
                         std::size_t group) {
  std::vector<Nodes> units((free.nodes() - 1) / free.nodes_per_unit() + 1);
  for (const std::uint32_t node : fitting) units[node / free.nodes_per_unit()].push_back(node);
  std::stable_sort(units.begin(), units.end(), [count](const Nodes& a, const Nodes& b) {
    const bool a_holds = a.size() >= count, b_holds = b.size() >= count;
    if (a_holds != b_holds) return a_holds;
    return a_holds ? a.size() < b.size() : a.size() > b.size();
  });
  Nodes nodes;
  for (const Nodes& unit : units) {
    const std::size_t taken = std::min(unit.size() / group * group, count - nodes.size());
    nodes.insert(nodes.end(), unit.begin(), unit.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  return nodes;
}

}  // namespace

std::optional<GpuRuns> PerNodePlacer::place_gpus(std::uint32_t gpus, const ParallelLayout& layout,
                                                 FreeGpus& free) const {
  const std::uint32_t group = std::max(1u, layout.context);
  const std::uint32_t count = std::max(1u, layout.pipeline) * group;
  const std::uint32_t each = (gpus + count - 1) / count;
  const bool has_units = count > 1 && free.nodes_per_unit() < free.nodes();
  Nodes nodes = best_fit_nodes(free, each, has_units ? free.nodes() : count);
  if (nodes.size() < count) return {};
  if (has_units) nodes = nodes_of_few_units(nodes, free, count, group);
  if (nodes.size() < count) return {};
  std::sort(nodes.begin(), nodes.end());
  GpuRuns out;
  std::uint32_t left = gpus;
  for (const std::uint32_t node : nodes) {
    const std::uint32_t taken = std::min(each, left);
    free.take_gpus(node, taken, out);
    left -= taken;
  }
  return out;
}

}  // namespace orrery
