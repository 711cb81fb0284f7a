// Possible placements of a job that has lost ranks, from the healthy and free GPUs. Used by
// policies of recovery. Pure functions of an observation; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Returns the placement with all ranks: lost ranks stay on their GPUs if these are healthy;
/// otherwise all ranks of their nodes move to nodes whose GPUs are all free, so that ranks that
/// shared a node still share one. The GPUs of a job that is not model-parallel are in ascending
/// order, as live runs require. Nothing if too few such nodes exist. A GPU that is lost counts even
/// if its rank is not lost yet.
std::optional<Standing> whole_again(const Observation& seen, const JobInfo& job);
/// Returns the placement without the lost replicas, if the job may run with that many GPUs; nothing
/// if no replica is left, if the GPUs are fewer than JobSpec::least(), or if the others have no
/// room for all micro-batches.
std::optional<Standing> smaller(const JobInfo& job);
/// Returns `home` if all of its GPUs, which the cluster must have, are healthy, stay in the cluster
/// and belong to no other job; nothing otherwise.
std::optional<Standing> back_home(const Observation& seen, const JobInfo& job,
                                  const Standing& home);
/// Returns the ranks of the job on parts whose removal is announced and still to come, ascending;
/// empty if none is.
std::vector<RankId> leaving_ranks(const Observation& seen, const JobInfo& job);
/// Returns the earliest instant at which one of the leaving_ranks() is removed; nothing if there
/// are none, or if the removals are announced by step.
std::optional<Nanos> next_removal(const Observation& seen, const JobInfo& job);
/// Returns the placement with all ranks in which the leaving ranks, of a model-parallel job all
/// ranks on their nodes, have free GPUs that stay: those of a node on one node if there is room,
/// always of a model-parallel job; otherwise the first free GPUs, where warm spares wait. The GPUs
/// of other jobs are in ascending order, as live runs require. Nothing without enough free GPUs.
std::optional<Standing> moved_away(const Observation& seen, const JobInfo& job);
/// Returns the placement without the replicas of leaving ranks, as smaller().
std::optional<Standing> smaller_away(const Observation& seen, const JobInfo& job);
/// Returns the placement with additional replicas on free GPUs that stay, up to `gpus` GPUs in all,
/// in the order of moved_away(); the present placement if no GPU is free. A job without GPUs gets
/// the layout of its submission.
Standing grown(const Observation& seen, const JobInfo& job, std::size_t gpus);
/// Returns the nearest source of state: a peer if the job is placed, a replica remains and the
/// state is not corrupted, else the newest checkpoint, else none.
StateFrom nearest_state(const JobInfo& job);
/// Returns the newest checkpoint as the source of state, else none.
StateFrom kept_state(const JobInfo& job);
/// Returns true if the job is placed and has lost ranks that no assignment replaces: none was
/// decided, or the decided one is void because a part of it was lost.
bool lacks_recovery(const JobInfo& job);

}  // namespace orrery
