// How much of a cluster's GPUs a packing can give away before nothing fits any more: pods arrive
// one by one, in an order drawn by a seed, and stay. The experiment of FGD (Weng et al., USENIX ATC
// 2023): all pods of the trace in random order, then pods drawn from it until so much of the
// cluster's GPUs has been asked for. A pod that fits nowhere is turned away and counts as arrived.
// Called by `orrery pack`. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/jobs/pod_list.hpp"

namespace orrery::sim {

/// One run, in shares of the cluster's GPUs.
struct PackingRun {
  std::string policy;
  std::uint64_t seed = 0;
  /// Given away when 0%, 1%, 2%, ... of the cluster's GPUs have been asked for.
  std::vector<double> allocated;
  std::uint64_t arrived = 0, turned_away = 0;  ///< pods
  double fragmented = 0;  ///< of the GPUs, at the end: free and of no use to the pods of the trace

  double at(double demand) const;  ///< rounded down to percents
};

/// `demand`: when to stop. Some of the pods need GPUs. Throws bad_input on an unknown policy.
PackingRun pack(const std::vector<Pod>& pods, const std::vector<NodeRecord>& nodes,
                const std::string& policy, double demand, std::uint64_t seed);

}  // namespace orrery::sim
