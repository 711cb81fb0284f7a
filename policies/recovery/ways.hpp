// Where a job that has lost ranks could go on, by what is well and free: the choices that policies
// of recovery have. Pure functions of what is observed; safe from any thread.
#pragma once

#include <optional>

#include "policies/seam/policy.hpp"

namespace orrery {

/// On its GPUs, where those of its lost ranks are well; on free ones for those of nodes that are
/// not: whole nodes, so that what shared a node still does. Nothing: there are too few.
std::optional<Standing> whole_again(const Observation& seen, const JobInfo& job);
/// Without its lost replicas, where that is as many as it may run with.
std::optional<Standing> smaller(const JobInfo& job);
/// On `home`, if all of that is well and nobody else's.
std::optional<Standing> back_home(const Observation& seen, const JobInfo& job,
                                  const Standing& home);
/// From peers if a replica is left, else from the newest checkpoint, else from the beginning.
StateFrom nearest_state(const JobInfo& job);
/// From the newest checkpoint, else from the beginning.
StateFrom kept_state(const JobInfo& job);

}  // namespace orrery
