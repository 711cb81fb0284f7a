// orrery live --jobs: the jobs of a log as processes of this machine, compared with a replay of the
// same jobs. Used by the subcommand `live` only; one thread, because the processes are forks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/shared/operator.hpp"

namespace orrery::cli {

/// Options of `orrery live --jobs`.
struct LiveJobsOptions {
  std::string log;  ///< job log; empty: a scenario runs instead
  std::string placement = "count", estimates = "recorded";
  std::uint32_t nodes = 0, gpus_per_node = 0;
  double speed = 1000;  ///< seconds of the log in one real second
  std::int64_t begin_s = 0, for_s = 7200;  ///< excerpt: its begin in the log, and its length
};

/// Declares the options of `orrery live --jobs` for the subcommand `live` and returns their values.
std::shared_ptr<LiveJobsOptions> add_live_jobs(CLI::App& live);

/// Throws a usage error that names the first given option of `live` that has no meaning for the
/// jobs of a log, for example --ranks. Call after the command line is parsed.
void check_live_jobs(const CLI::App& live);

/// Runs the excerpt of the log in both worlds and prints the comparison. `policies`: those of
/// --policy, at most one; empty: fifo. `operation`: limit of a call of the policy and the reaction
/// to its errors, in both worlds. `record`: log to write, or empty. Blocks for the excerpt's length
/// in real time. Returns the exit code: goal_missed if the worlds differ or a process failed, else
/// 0. Throws a usage error if the options lack a cluster or have another mode than drive, the
/// excerpt has no job, or `policies` has several entries or an unknown one; errors of
/// load_job_log(), of the log to write and, unless the run continues without it, of the policy pass
/// through.
int live_jobs(const LiveJobsOptions& options, const std::vector<std::string>& policies,
              const OperatorOptions& operation, const std::string& record, bool json);

}  // namespace orrery::cli
