#include "live/queue/node_map.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery::live {

NodeMap::NodeMap(const std::vector<QueueNode>& nodes, std::uint32_t places_per_rack)
    : places_per_rack_(places_per_rack) {
  for (const QueueNode& node : nodes) gpus_per_node_ = std::max(gpus_per_node_, node.gpus);
  for (const QueueNode& node : nodes) {
    if (ids_.contains(node.name)) continue;
    names_.emplace_back();
    racks_.emplace_back();
    if (!node.name.empty()) set_node(this->nodes() - 1, node);
  }
  if (ids_.empty() || gpus_per_node_ == 0) {
    throw Error(ErrorKind::bad_input, "expected nodes with GPUs, found none");
  }
  count_racks();
}

void NodeMap::set_node(std::uint32_t place, const QueueNode& node) {
  names_[place] = node.name;
  racks_[place] = node.rack;
  ids_[node.name] = {place};
  for (std::uint32_t gpu = node.gpus; gpu < gpus_per_node_; ++gpu) {
    missing_gpus_.insert({PartKind::gpu, place * gpus_per_node_ + gpu});
  }
}

void NodeMap::count_racks() {
  std::map<std::string, std::uint32_t> sizes;
  for (const auto& [name, place] : ids_) ++sizes[racks_[place.value]];
  has_racks_ = sizes.size() > 1 || !sizes.contains("");
  largest_rack_ = 0;
  for (const auto& [rack, size] : sizes) largest_rack_ = std::max(largest_rack_, size);
}

/// Returns the first place without a node in `rack`, or else in a rack without nodes.
std::optional<std::uint32_t> NodeMap::find_place(const std::string& rack) const {
  const std::uint32_t size = places_per_rack_ > 0 ? places_per_rack_ : nodes();
  std::optional<std::uint32_t> vacant;  // first place of the first rack without nodes
  for (std::uint32_t begin = 0; begin < nodes(); begin += size) {
    std::optional<std::uint32_t> free;
    bool has_nodes = false, is_its_rack = places_per_rack_ == 0;
    for (std::uint32_t place = begin; place < std::min(begin + size, nodes()); ++place) {
      if (names_[place].empty()) {
        if (!free) free = place;
      } else {
        has_nodes = true;
        is_its_rack = is_its_rack || racks_[place] == rack;
      }
    }
    if (is_its_rack && free) return free;
    if (is_its_rack) return {};
    if (!has_nodes && !vacant) vacant = free;
  }
  return vacant;
}

std::optional<NodeId> NodeMap::adopt(const QueueNode& node) {
  const std::optional<std::uint32_t> place = find_place(node.rack);
  if (!place) return {};
  set_node(*place, node);
  count_racks();
  return NodeId{*place};
}

void NodeMap::release(NodeId node) {
  ids_.erase(std::exchange(names_.at(node.value), {}));
  racks_[node.value].clear();
  for (std::uint32_t gpu = 0; gpu < gpus_per_node_; ++gpu) {
    missing_gpus_.erase({PartKind::gpu, node.value * gpus_per_node_ + gpu});
  }
  count_racks();
}

bool NodeMap::is_within_rack(const GpuRuns& gpus) const {
  std::set<std::string> racks;
  for (const GpuId gpu : gpus) racks.insert(racks_.at(gpu.value / gpus_per_node_));
  return racks.size() <= 1;
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
