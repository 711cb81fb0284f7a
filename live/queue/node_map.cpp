#include "live/queue/node_map.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace orrery::live {

NodeMap::NodeMap(const std::vector<QueueNode>& nodes) {
  std::vector<std::uint32_t> gpus;
  for (const QueueNode& node : nodes) {
    const NodeId id{static_cast<std::uint32_t>(names_.size())};
    if (!node.name.empty() && !ids_.emplace(node.name, id).second) continue;
    names_.push_back(node.name);
    gpus.push_back(node.gpus);
  }
  if (ids_.empty() || *std::max_element(gpus.begin(), gpus.end()) == 0) {
    throw Error(ErrorKind::bad_input, "expected nodes with GPUs, found none");
  }
  gpus_per_node_ = *std::max_element(gpus.begin(), gpus.end());
  for (std::uint32_t node = 0; node < this->nodes(); ++node) {
    for (std::uint32_t gpu = gpus[node]; gpu < gpus_per_node_; ++gpu) {
      missing_gpus_.insert({PartKind::gpu, node * gpus_per_node_ + gpu});
    }
  }
}

std::optional<NodeId> NodeMap::find(const std::string& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<NodeId> NodeMap::find_all(const std::vector<std::string>& names) const {
  std::set<NodeId> found;
  for (const std::string& each : names) {
    if (const auto id = find(each)) found.insert(*id);
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> NodeMap::names_of(const GpuRuns& gpus) const {
  std::set<std::string> names;
  for (const GpuId gpu : gpus) names.insert(names_.at(gpu.value / gpus_per_node_));
  return {names.begin(), names.end()};
}

bool NodeMap::has_shape(const GpuRuns& gpus, std::uint32_t count, std::uint32_t per_node) const {
  std::map<std::uint32_t, std::uint32_t> found;
  for (const GpuId gpu : gpus) ++found[gpu.value / gpus_per_node_];
  return found.size() == count && std::all_of(found.begin(), found.end(), [&](const auto& each) {
           return each.second == per_node;
         });
}

std::set<Part> NodeMap::lost_parts(const std::vector<QueueNode>& nodes) const {
  std::set<NodeId> usable;
  for (const QueueNode& node : nodes) {
    const auto id = find(node.name);
    if (id && node.is_usable) usable.insert(*id);
  }
  std::set<Part> lost = missing_gpus_;
  for (std::uint32_t node = 0; node < this->nodes(); ++node) {
    if (!usable.contains({node})) lost.insert({PartKind::node, node});
  }
  return lost;
}

std::optional<GpuRuns> unowned_gpus(const ClusterState& state, const std::vector<NodeId>& nodes,
                                    std::uint32_t per_node, std::uint32_t gpus_per_node) {
  GpuRuns gpus;
  for (const NodeId node : nodes) {
    std::uint32_t missing = per_node;
    const std::uint32_t begin = node.value * gpus_per_node;
    for (std::uint32_t gpu = begin; gpu < begin + gpus_per_node && missing > 0; ++gpu) {
      if (state.owner[gpu] != ClusterState::kNobody) continue;
      gpus.push_back({gpu});
      --missing;
    }
    if (missing > 0) return {};
  }
  return gpus;
}

}  // namespace orrery::live
