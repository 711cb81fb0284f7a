// Possible placements of a job that has lost ranks, from the healthy and free GPUs. Used by
// policies of recovery. Pure functions of an observation; thread-safe.
#pragma once

#include <optional>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Returns the placement with all ranks: lost ranks stay on their GPUs if these are healthy;
/// otherwise all ranks of their nodes move to nodes whose GPUs are all free, so that ranks that
/// shared a node still share one. Nothing if too few such nodes exist. A GPU that is lost counts
/// even if its rank is not lost yet.
std::optional<Standing> whole_again(const Observation& seen, const JobInfo& job);
/// Returns the placement without the lost replicas, if the job may run with that many GPUs; nothing
/// if no replica is left, if the GPUs are fewer than JobSpec::least(), or if the others have no
/// room for all micro-batches.
std::optional<Standing> smaller(const JobInfo& job);
/// Returns `home` if all of its GPUs, which the cluster must have, are healthy and belong to no
/// other job; nothing otherwise.
std::optional<Standing> back_home(const Observation& seen, const JobInfo& job,
                                  const Standing& home);
/// Returns the nearest source of state: a peer if the job is placed and a replica remains, else the
/// newest checkpoint, else none.
StateFrom nearest_state(const JobInfo& job);
/// Returns the newest checkpoint as the source of state, else none.
StateFrom kept_state(const JobInfo& job);

}  // namespace orrery
