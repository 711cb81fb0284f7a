// Job-level replay of a recorded log: a simulated world with recorded jobs only, so it needs no
// simulation engine and no process of its own. The same policies as everywhere place the jobs.
// Called by `orrery jobs` and the Python package. One thread.
#pragma once

#include <string>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/jobs/backtest.hpp"
#include "sim/jobs/recorded_jobs.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Tables of a replay, as CSV.
struct JobTables {
  std::string jobs;                        ///< one row for each job
  std::string series;                      ///< use of the cluster over time
  std::string groups;                      ///< completion by size and by virtual cluster
  std::vector<BacktestRow> backtest = {};  ///< comparison with the log's starts, if it has any
};

/// Returns the seed of all random draws.
std::uint64_t replay_seed(const JobReplay& replay);

/// Returns the conditions that need no engine, without paces. Throws bad_input for unreadable
/// outages.
RunConditions run_conditions(const ReplayConditions& asked, const Cluster& cluster,
                             std::uint64_t seed);

/// Returns the same replay for a simulator in its own process, which simulated speed requires.
/// Throws bad_input without a cluster of known fabric.
RunRequest replay_request(const JobReplay& replay, const std::string& record_path);

/// Returns the result of that run, and its tables except the comparison with the log's starts.
JobsReport replay_report(const JobReplay& replay, Report&& ran, JobTables* tables);

/// Replays `jobs` with the policy and placement of `replay` (its `trace` is only recorded) and
/// returns the result. With a path, records the run there; fills `tables` if given. `host` stays
/// absent. A job too large for the cluster is rejected and counted. Throws bad_input on an unknown
/// name.
JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay,
                       const std::string& record_path = {}, JobTables* tables = nullptr);

/// Replays `jobs` with a policy of the caller.
JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay, Policy& policy,
                       const std::string& record_path = {}, JobTables* tables = nullptr);

}  // namespace orrery::sim
