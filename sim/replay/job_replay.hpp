// Job-level replay of a recorded log: a simulated world with recorded jobs only, which needs
// neither a simulation engine nor a process of its own. The policies that run in all other worlds
// place the jobs. Replays with simulated speed run in a simulator process instead. Called by
// `orrery jobs` and the Python package. One thread.
#pragma once

#include <string>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/replay/backtest.hpp"
#include "sim/replay/job_savings.hpp"
#include "sim/replay/recorded_jobs.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Tables of a replay: rows of the backtest, outcomes of jobs, and other tables as CSV with a
/// header line.
struct JobTables {
  std::string jobs = {};                   ///< one row for each job
  std::string series = {};                 ///< use of the cluster, one row for each interval
  std::vector<BacktestRow> backtest = {};  ///< comparison with recorded starts; empty without any
  JobOutcomes outcomes = {};               ///< waits and ends of all jobs
  bool has_texts = true;                   ///< false: a replay fills `outcomes` only
};

/// Returns the seed of all random draws of the replay; 1 if the replay names no seed.
std::uint64_t replay_seed(const JobReplay& replay);

/// Sets the slices of a GPU of the replay, if it names none and the log has parts of GPUs, to as
/// many as the parts need. replay_jobs() does the same; a caller whose policies get the replay
/// before calls this function first. Throws bad_input if the replay names slices and the log has no
/// parts.
void settle_slices(JobReplay& replay, const std::vector<TraceJob>& jobs);
/// Makes a replay that names no slices count parts of GPUs in the log as whole GPUs.
void count_parts_whole(JobReplay& replay, const std::vector<TraceJob>& jobs);

/// Returns the conditions of recorded jobs that need no engine: restart cost, checkpoints and node
/// outages, without paces. `seed`: seed of the node failures. Throws bad_input if the file of
/// outages cannot be read.
RunConditions run_conditions(const ReplayConditions& asked, const Cluster& cluster,
                             std::uint64_t seed);

/// Throws bad_input for limits of power that the cluster or the policy of the replay excludes, and
/// as cluster_of(). replay_jobs() does the same.
void check_power(const JobReplay& replay);

/// Returns the request for the same replay in a simulator process, which simulated speed requires.
/// With a path, the simulator records the run there. If no built-in policy has the replay's name,
/// the request names no policy, and the caller's process decides. Throws bad_input if the replay
/// has no description of its cluster, has kinds of nodes, slices of GPUs or limits of power, and as
/// policy_of().
RunRequest replay_request(const JobReplay& replay, const std::string& record_path);

/// Returns the result of a simulator process that ran replay_request(), and fills `tables`, if
/// given, except the comparison with recorded starts. Takes the results out of `ran`.
JobsReport replay_report(const JobReplay& replay, Report&& ran, JobTables* tables);

/// Replays `jobs` with the policy, placement and conditions of `replay` and returns the result. The
/// path `replay.trace` is not read, only recorded. With `record_path`, records the run there and
/// sets the hashes of the result; an empty path: neither. Fills `tables` if given. The field `host`
/// of the result stays absent. A job too large for the cluster is rejected and counted. Simulated
/// speed is ignored, and so are kinds of nodes if no job names kinds of GPUs. Throws bad_input for
/// an unknown policy, placement or kind of estimates, as settle_slices(), and if jobs name kinds
/// and the nodes have several, or the log has parts of GPUs, and the policy does not declare
/// Needs::gpu_kinds or Needs::gpu_parts; as check_power(), and for limits of power if the log has
/// parts of GPUs or kinds of nodes count; a usage Error for a malformed replay.set(), an
/// environment Error if the record cannot be written, and as run_conditions().
JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay,
                       const std::string& record_path = {}, JobTables* tables = nullptr);

/// Replays `jobs` in the same way with `policy` of the caller, which the replay starts, instead of
/// the policy and placement of `replay`; these are only named in the result.
JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay, Policy& policy,
                       const std::string& record_path = {}, JobTables* tables = nullptr);

}  // namespace orrery::sim
