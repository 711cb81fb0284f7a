#include "sim/estimates/collectives/tree_schedule.hpp"

#include <bit>

namespace orrery::estimates {
namespace {

/// Returns the parent in the in-order numbering of a binary tree whose root 0 has one child; -1 for
/// the root.
std::int64_t in_order_parent(std::uint32_t n, std::uint32_t rank) {
  if (rank == 0) return -1;
  const std::uint32_t bit = rank & (~rank + 1);
  const std::uint32_t up = (rank ^ bit) | (bit << 1);
  return up >= n ? rank ^ bit : up;
}

}  // namespace

std::int64_t tree_parent(std::uint32_t n, std::uint32_t rank, bool second) {
  if (!second) return in_order_parent(n, rank);
  if (n % 2 == 0) {  // mirrored: leaves of the first tree become inner nodes
    const std::int64_t up = in_order_parent(n, n - 1 - rank);
    return up < 0 ? -1 : n - 1 - up;
  }
  const std::int64_t up = in_order_parent(n, (rank + n - 1) % n);  // shifted by one rank
  return up < 0 ? -1 : (up + 1) % n;
}

MessageWay TreeSchedule::add_trees(const GpuGroup& heads, bool up) {
  const auto size = static_cast<std::uint32_t>(heads.size());
  MessageWay longest;
  for (const bool second : {false, true}) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      const std::int64_t parent = tree_parent(size, rank, second);
      if (parent < 0) continue;
      phases_.flows().add_flows(heads[static_cast<std::size_t>(parent)], heads[rank]);
      if (up) phases_.flows().add_flows(heads[rank], heads[static_cast<std::size_t>(parent)]);
      MessageWay whole;
      std::int64_t below = rank;
      for (std::int64_t at = parent; at >= 0;
           at = tree_parent(size, static_cast<std::uint32_t>(at), second)) {
        const MessageWay edge = phases_.way(heads[static_cast<std::size_t>(below)],
                                            heads[static_cast<std::size_t>(at)]);
        whole.far += edge.far;
        whole.latency += edge.latency;
        below = at;
      }
      keep_longer(longest, whole);
    }
  }
  return longest;
}

/// Each domain forms a chain, as in NCCL, whose head is a node of both trees; each member is the
/// head of one channel. A group in one domain, or with one member per domain, has trees only. Each
/// tree carries half of its channel, in both directions at once.
bool TreeSchedule::lay_out(CollectiveKind kind) {
  if (kind != CollectiveKind::all_reduce && kind != CollectiveKind::broadcast) return false;
  const bool reduces = kind == CollectiveKind::all_reduce;
  const bool chained = who_.is_even() && who_.spans() > 1 && who_.members_per_domain() > 1;
  if (kind == CollectiveKind::broadcast && chained) return false;
  const double passes = reduces ? 2 : 1;
  MessageWay all;
  for (std::size_t g = 0; g < who_.groups().size(); ++g) {
    if (chained) {
      for (std::uint32_t head = 0; head < who_.members_per_domain(); ++head) {
        keep_longer(all, add_chained_trees(who_.domains()[g], head), passes);
      }
      continue;
    }
    MessageWay trees = add_trees(who_.groups()[g], reduces);
    if (!reduces) {
      // Rank 0 is the root of the broadcast and of the first tree; rank 0 also feeds the root of
      // the second tree.
      const GpuId root = who_.groups()[g].front(),
                  second = who_.groups()[g][who_.size() % 2 == 0 ? who_.size() - 1 : 1];
      phases_.flows().add_flows(root, second);
      trees.far += phases_.way(root, second).far;
      trees.latency += phases_.way(root, second).latency;
    }
    keep_longer(all, trees, passes);
  }
  const std::uint32_t height = std::bit_width((chained ? who_.spans() : who_.size()) - 1);
  const std::uint32_t chain_rounds = chained ? who_.members_per_domain() - 1 : 0;
  const double extra = reduces ? 0 : 1;
  phases_.close(0.5 / (chained ? who_.members_per_domain() : 1),
                passes * (height + chain_rounds) + extra, all);
  return true;
}

MessageWay TreeSchedule::add_chained_trees(const std::vector<GpuGroup>& domains,
                                           std::uint32_t head) {
  GpuGroup heads;
  double chain = 0;
  for (const GpuGroup& domain : domains) {
    heads.push_back(domain[head]);
    chain = 0;
    for (std::uint32_t i = 0; i + 1 < who_.members_per_domain(); ++i) {
      const GpuId near = domain[(head + i) % who_.members_per_domain()],
                  far = domain[(head + i + 1) % who_.members_per_domain()];
      phases_.flows().add_flows(near, far, 2);
      phases_.flows().add_flows(far, near, 2);
      chain += who_.cluster().latency(far, near).value;
    }
  }
  MessageWay all = add_trees(heads, true);
  all.latency += chain;
  return all;
}

}  // namespace orrery::estimates
