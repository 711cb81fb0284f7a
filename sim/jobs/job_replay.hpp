// Job-level replay of a recorded log: a simulated world in which nothing but recorded jobs runs, so
// that it needs no simulation engine and no process of its own. The same policies as everywhere
// place the jobs. Called by `orrery jobs` and the Python package. One thread.
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

/// The tables of a replay, as CSV.
struct JobTables {
  std::string jobs;                        ///< one row a job
  std::string series;                      ///< use of the cluster over time
  std::string groups;                      ///< completion by size and by virtual cluster
  std::vector<BacktestRow> backtest = {};  ///< beside the log's starts, if it has any
};

/// Of what is drawn.
std::uint64_t replay_seed(const JobReplay& replay);

/// What conditions say that needs no engine: paces are left out. Throws bad_input for outages that
/// cannot be read.
RunConditions run_conditions(const ReplayConditions& asked, const Cluster& cluster,
                             std::uint64_t seed);

/// The same replay for a simulator of its own process, which simulated speed needs. Throws
/// bad_input without a cluster whose fabric is known.
RunRequest replay_request(const JobReplay& replay, const std::string& record_path);

/// The result of that, and its tables but for the comparison with the log's starts.
JobsReport replay_report(const JobReplay& replay, Report&& ran, JobTables* tables);

/// Replays `jobs` through the policy and placement that `replay` names (its `trace` is only
/// recorded) and, with a path, records the run there; `tables` are filled if they are asked for.
/// `host` stays absent: the caller knows. A job too large for the cluster is rejected and counted.
/// Throws bad_input on an unknown name.
JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay,
                       const std::string& record_path = {}, JobTables* tables = nullptr);

/// The same with a policy of the caller's own.
JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay, Policy& policy,
                       const std::string& record_path = {}, JobTables* tables = nullptr);

}  // namespace orrery::sim
