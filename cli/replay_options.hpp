// What the commands that replay a job log (jobs, explain) have in common: their options, and the
// replay that those ask for. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "core/error.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {

/// What the commands that replay a log have in common.
struct ReplayOptions {
  std::string file, cluster, placement, record, estimates, speed, conditions;
  std::vector<std::string> policies;
  std::vector<std::string> changes;  ///< of --set
  JobLogOptions log;
  std::uint32_t nodes = 0, gpus_per_node = 0;
  std::optional<double> estimate_error;
  std::optional<std::uint64_t> seed;
};

/// Declares them; `options` outlives the command.
void declare_replay(CLI::App& command, const std::shared_ptr<ReplayOptions>& options);

/// Of the file and the options; what options say wins, and `changes` behind them: KEY=VALUE of a
/// replay's file, or POLICY.PARAMETER=VALUE. Throws usage where something is missing.
JobReplay asked_for(const ReplayOptions& options, const std::vector<std::string>& changes = {});

/// The log that it names, as the options have it read.
JobLog load_log(const JobReplay& replay, const ReplayOptions& options);

}  // namespace orrery::cli
