// Prices of single operators of a training program on one GPU of a cluster: kernels by their shape,
// collectives by their members. Called by `orrery rehearse`; needs no engine. The prices are those
// of the kernel tables and of the fabric model behind `orrery predict`, with the factors of a
// software stack on kernels and links if there is one. Not thread-safe: one object per thread.
// Seconds and bytes.
//
// For example, a memory-bound operator of B bytes takes B / (memory bandwidth x share) + the gap
// before a kernel.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/units.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/collective.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Price list of a job whose rank r runs on GPU r of a cluster. The cluster must outlive this
/// object.
class OperatorPrices {
 public:
  /// Stores the cluster's reference and prices, with the factors of `stack` (null: none), which is
  /// not needed later. Throws an internal Error if the cluster has fewer than `ranks` GPUs.
  OperatorPrices(const Cluster& cluster, std::uint32_t ranks, const SoftwareStack* stack = nullptr);

  /// Returns the seconds of one kernel without other load. A precision that the GPU lacks counts as
  /// the next wider one that the GPU has: tf32 as fp32, fp8 as bf16.
  Seconds kernel(const Kernel& kernel, Precision precision) const;

  /// Returns the seconds of one collective of `size` bytes (sim/estimates/collectives/collectives
  /// defines the size) among `members`, by the algorithm and protocol that are fastest alone. If
  /// the ranks of the job fall into groups of the same pattern, all groups communicate at once: the
  /// members 0, 8, 16, ... of 64 ranks have 7 sibling groups. Returns 0 for fewer than 2 members,
  /// without a check of them. Throws bad_input if a member of a larger group is not a rank. The
  /// members must be distinct. Keeps the schedule of `kind` and `members` for later calls.
  Seconds collective(CollectiveKind kind, const std::vector<std::uint32_t>& members, Bytes size);

 private:
  using Pattern = std::tuple<CollectiveKind, std::vector<std::uint32_t>>;

  /// Returns the rate of the links that `members` use under the stack, as a share of the rate
  /// without it.
  double link_share(const std::vector<std::uint32_t>& members) const;

  /// Returns the group of `members` and its siblings.
  std::vector<GpuGroup> groups_of(const std::vector<std::uint32_t>& members) const;

  const Cluster& cluster_;
  const std::uint32_t ranks_;
  const CostProfile profile_;
  const double nvlink_share_, network_share_;  ///< rates under the stack over those without it
  /// Schedules by kind, members and algorithm: programs repeat a few patterns with many sizes.
  std::map<std::pair<Pattern, CollectiveAlgorithm>, CollectiveSchedule> schedules_;
};

/// Returns the ranks of `members` and of all groups with the same stride that together are the
/// ranks 0 to `ranks` - 1, `members` first; `members` alone if they have no common stride or do not
/// divide the ranks. For example, {0, 2} of 4 ranks gives {0, 2} and {1, 3}.
std::vector<std::vector<std::uint32_t>> sibling_groups(const std::vector<std::uint32_t>& members,
                                                       std::uint32_t ranks);

}  // namespace orrery::estimates
