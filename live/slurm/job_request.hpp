// Requests of jobs as squeue shows them: order of submission, rules that choose managed jobs, facts
// for the policies. Used by live/slurm/job_follower. Pure functions, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "live/queue/node_map.hpp"
#include "live/slurm/answers.hpp"
#include "live/slurm/follow_rules.hpp"
#include "policies/seam/job.hpp"

namespace orrery::live {

/// Sorts jobs by submission: instant, then number of the job, then number of the task. For example,
/// of one instant, 9 comes before 10_2 and 10_2 before 10_11.
void sort_by_submission(std::vector<SlurmJob>& jobs);
/// Returns true if the job is of a partition and an account of the rules.
bool is_chosen(const SlurmRules& rules, const SlurmJob& row);
/// Returns true if Slurm could start a managed job on `nodes` without an order, so that the job
/// needs a lease.
bool is_startable(const SlurmJob& row, const NodeMap& nodes);
/// Returns the pool of a job: its account, or its partition without one.
const std::string& pool_of(const SlurmJob& row);
/// Returns the facts that policies see of a job, without its id in the world. The size of a placed
/// job is that of its nodes.
JobSpec request_of(const SlurmJob& row, const NodeMap& nodes);

}  // namespace orrery::live
