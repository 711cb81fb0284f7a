#include "policies/seam/checkpoint_copies.hpp"

#include <algorithm>
#include <utility>

#include "policies/seam/job.hpp"
#include "topologies/cluster.hpp"
#include "topologies/failure_domain.hpp"

namespace orrery {

std::vector<CopyHolders> copy_holders(Tier tier, const Cluster& cluster,
                                      const std::vector<GpuId>& gpus) {
  std::vector<CopyHolders> holders;
  if (!is_in_memory(tier)) return holders;
  for (const GpuId gpu : gpus) holders.push_back({cluster.node_of(gpu), cluster.node_of(gpu)});
  if (tier != Tier::peer) return holders;
  std::vector<FailureDomain> domains;
  for (const GpuId gpu : gpus) domains.push_back(failure_domain(cluster, gpu));
  const std::vector<std::uint32_t> keepers = copy_keepers(domains);
  for (std::size_t rank = 0; rank < holders.size(); ++rank) {
    holders[rank].peer = holders[keepers[rank]].node;
  }
  return holders;
}

bool remove_holder(std::vector<CopyHolders>& holders, NodeId lost) {
  for (CopyHolders& shard : holders) {
    if (shard.node == lost) shard.node = shard.peer;
    if (shard.peer == lost) shard.peer = shard.node;
  }
  return std::none_of(holders.begin(), holders.end(),
                      [lost](const CopyHolders& shard) { return shard.node == lost; });
}

void HeldCheckpoints::add_checkpoint(HeldCheckpoint checkpoint) {
  const auto place = std::find_if(all_.begin(), all_.end(), [&](const HeldCheckpoint& known) {
    return known.tier >= checkpoint.tier;
  });
  if (place == all_.end() || place->tier != checkpoint.tier) {
    all_.insert(place, std::move(checkpoint));
  } else if (checkpoint.step >= place->step) {
    *place = std::move(checkpoint);
  }
}

void HeldCheckpoints::lose_node(NodeId node) {
  std::erase_if(all_, [node](HeldCheckpoint& each) { return !remove_holder(each.holders, node); });
}

void HeldCheckpoints::forget_after(Step step) {
  std::erase_if(all_, [step](const HeldCheckpoint& each) { return each.step > step; });
}

const HeldCheckpoint* HeldCheckpoints::newest() const {
  const auto found = std::max_element(
      all_.begin(), all_.end(),
      [](const HeldCheckpoint& a, const HeldCheckpoint& b) { return a.step < b.step; });
  return found == all_.end() ? nullptr : &*found;
}

std::optional<Tier> SaveRequests::due(Step step, const CheckpointPlan& plan) const {
  if (plan.every_steps > 0 && step % plan.every_steps == 0) return plan.tier;
  return asked_.empty() ? std::nullopt : std::optional(*asked_.begin());
}

}  // namespace orrery
