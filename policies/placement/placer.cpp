#include "policies/placement/placer.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/placement/consolidated.hpp"
#include "policies/placement/count.hpp"
#include "policies/placement/topology.hpp"

namespace orrery {

FreeGpus::FreeGpus(const Cluster& cluster)
    : gpus_per_node_(cluster.shape().gpus_per_node),
      nodes_per_unit_(std::max(1u, cluster.shape().nodes_per_unit)),
      per_node_(cluster.nodes(), 0),
      with_(gpus_per_node_ + 1),
      given_in_(cluster.gpus(), 0),
      back_in_(cluster.gpus(), 0) {
  for (Nodes& nodes : with_) nodes.bits.assign((per_node_.size() + 63) / 64, 0);
  for (std::uint32_t node = 0; node < per_node_.size(); ++node) {
    with_[0].bits[node / 64] |= std::uint64_t{1} << node % 64;
  }
  with_[0].count = nodes();
}

void FreeGpus::set(std::uint32_t node, std::uint32_t free) {
  const std::uint64_t bit = std::uint64_t{1} << node % 64;
  Nodes& before = with_[per_node_[node]];
  before.bits[node / 64] &= ~bit;
  --before.count;
  Nodes& after = with_[free];
  after.bits[node / 64] |= bit;
  ++after.count;
  per_node_[node] = free;
}

void FreeGpus::refresh(const ClusterState& state) {
  constexpr std::uint32_t kTogether = 64;  // mostly equal: compared as bytes
  for (std::uint32_t begin = 0; begin < nodes(); begin += kTogether) {
    const std::uint32_t end = std::min(begin + kTogether, nodes());
    const auto ours = per_node_.begin();
    if (std::equal(ours + begin, ours + end, state.free_per_node.begin() + begin)) continue;
    for (std::uint32_t node = begin; node < end; ++node) {
      if (per_node_[node] != state.free_per_node[node]) set(node, state.free_per_node[node]);
    }
  }
  state_ = &state;
  total_ = state.free;
  ++pass_;
}

std::uint32_t FreeGpus::first_with(std::uint32_t free, std::uint32_t from) const {
  if (with_[free].count == 0 || from >= nodes()) return nodes();
  const std::vector<std::uint64_t>& bits = with_[free].bits;
  std::uint64_t word = bits[from / 64] & ~std::uint64_t{0} << from % 64;
  for (std::uint32_t at = from / 64;; word = bits[at]) {
    if (word != 0) return at * 64 + static_cast<std::uint32_t>(std::countr_zero(word));
    if (++at == bits.size()) return nodes();
  }
}

std::uint32_t FreeGpus::first_not_full(std::uint32_t from) const {
  std::uint32_t first = nodes();
  for (std::uint32_t free = 1; free <= gpus_per_node_; ++free) {
    first = std::min(first, first_with(free, from));
  }
  return first;
}

bool FreeGpus::is_free(std::uint32_t gpu) const {
  if (given_in_[gpu] == pass_) return false;
  if (back_in_[gpu] == pass_) return true;
  return state_->owner[gpu] == ClusterState::kNobody && state_->well({gpu}, {gpu / gpus_per_node_});
}

void FreeGpus::take(std::uint32_t node, std::uint32_t count, GpuRuns& out) {
  ensure(count <= per_node_[node], "a node has the GPUs that are taken from it");
  set(node, per_node_[node] - count);
  total_ -= count;
  for (std::uint32_t gpu = node * gpus_per_node_; count > 0; ++gpu) {
    ensure(gpu < (node + 1) * gpus_per_node_, "a node has the free GPUs that it counts");
    if (!is_free(gpu)) continue;
    given_in_[gpu] = pass_;
    out.push_back({gpu});
    --count;
  }
}

void FreeGpus::give_back(const GpuRuns& gpus) {
  for (const GpuId gpu : gpus) {
    const std::uint32_t node = gpu.value / gpus_per_node_;
    if (!state_->well(gpu, {node})) continue;
    back_in_[gpu.value] = pass_;
    set(node, per_node_[node] + 1);
    ++total_;
  }
}

std::vector<std::string> placer_names() { return {"count", "consolidated", "topology"}; }

std::unique_ptr<Placer> make_placer(std::string_view name) {
  if (name == "count") return std::make_unique<CountPlacer>();
  if (name == "consolidated") return std::make_unique<ConsolidatedPlacer>();
  if (name == "topology") return std::make_unique<TopologyPlacer>();
  throw Error(ErrorKind::bad_input, fmt::format("there is no placement '{}'{}", name,
                                                did_you_mean(name, placer_names())));
}

}  // namespace orrery
