#include "policies/placement/placer.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/placement/consolidated.hpp"
#include "policies/placement/count.hpp"

namespace orrery {

FreeGpus::FreeGpus(const Cluster& cluster)
    : gpus_per_node_(cluster.shape().gpus_per_node), given_in_(cluster.gpus(), 0) {}

void FreeGpus::refresh(const ClusterState& state) {
  state_ = &state;
  per_node_ = state.free_per_node;
  total_ = state.free;
  ++pass_;
}

void FreeGpus::take(std::uint32_t node, std::uint32_t count, GpuRuns& out) {
  per_node_[node] -= count;
  total_ -= count;
  for (std::uint32_t gpu = node * gpus_per_node_; count > 0; ++gpu) {
    ensure(gpu < (node + 1) * gpus_per_node_, "a node has the free GPUs that it counts");
    const bool free = state_->owner[gpu] == ClusterState::kNobody && state_->well({gpu}, {node});
    if (!free || given_in_[gpu] == pass_) continue;
    given_in_[gpu] = pass_;
    out.push_back({gpu});
    --count;
  }
}

std::vector<std::string> placer_names() { return {"count", "consolidated"}; }

std::unique_ptr<Placer> make_placer(std::string_view name) {
  if (name == "count") return std::make_unique<CountPlacer>();
  if (name == "consolidated") return std::make_unique<ConsolidatedPlacer>();
  throw Error(ErrorKind::bad_input, fmt::format("there is no placement '{}'{}", name,
                                                did_you_mean(name, placer_names())));
}

}  // namespace orrery
