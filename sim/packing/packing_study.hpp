// Fraction of a cluster's GPUs that a packing can give away before no pod fits: pods arrive one by
// one, in a random order, and stay. The experiment of FGD (Weng et al., USENIX ATC 2023): all pods
// of the trace in random order, then pods drawn from it until the requests reach a given fraction
// of the cluster's GPUs. A pod that fits nowhere is rejected and counts as arrived. Called by
// `orrery pack`. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/jobs/pod_list.hpp"

namespace orrery::sim {

/// Result of one run, in fractions of the cluster's GPUs.
struct PackingRun {
  std::string policy;
  std::uint64_t seed = 0;
  /// Allocated fraction when 0%, 1%, 2%, ... of the cluster's GPUs have been requested.
  std::vector<double> allocated;
  std::uint64_t arrived = 0, turned_away = 0;  ///< pods
  double fragmented = 0;  ///< fraction of free GPUs at the end that no pod of the trace can use

  /// Returns the allocated fraction at `demand`, a fraction >= 0 of the cluster's GPUs, rounded
  /// down to percents; beyond the run's last percent, the fraction there. Throws std::out_of_range
  /// if `allocated` is empty, as before pack().
  double at(double demand) const;
};

/// Runs the experiment until the requests exceed `demand`, a fraction >= 0 of the cluster's GPUs,
/// rounded down to percents, and returns its result; equal arguments give equal results. `nodes`
/// must have GPUs. Throws bad_input on an unknown policy, an internal Error if no pod needs GPUs.
PackingRun pack(const std::vector<Pod>& pods, const std::vector<NodeRecord>& nodes,
                const std::string& policy, double demand, std::uint64_t seed);

}  // namespace orrery::sim
