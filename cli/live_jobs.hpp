// orrery live --jobs: the jobs of a log as processes of this machine, and the replay of the same
// jobs beside it. Used by the subcommand `live` only; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <CLI/App.hpp>

namespace orrery::cli {

struct LiveJobsOptions {
  std::string log;  ///< empty: the run is a scenario's
  std::string policy = "fifo", placement = "count", estimates = "recorded";
  std::uint32_t nodes = 0, gpus_per_node = 0;
  double speed = 1000;
  std::int64_t begin_s = 0, for_s = 7200;
};

std::shared_ptr<LiveJobsOptions> add_live_jobs(CLI::App& live);

/// Returns the exit code; `record`: log to write, or empty.
int live_jobs(const LiveJobsOptions& options, const std::string& record, bool json);

}  // namespace orrery::cli
