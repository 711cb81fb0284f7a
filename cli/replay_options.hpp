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
  std::string file, cluster, placement, record, estimates;
  std::vector<std::string> policies;
  JobLogOptions log;
  std::uint32_t nodes = 0, gpus_per_node = 0;
  std::optional<double> estimate_error;
  std::optional<std::uint64_t> seed;
};

/// Declares them; `options` outlives the command.
void declare_replay(CLI::App& command, const std::shared_ptr<ReplayOptions>& options);

/// Of the file and the options; what options say wins. Throws usage where something is missing.
JobReplay asked_for(const ReplayOptions& options);

/// The log that it names, as the options have it read.
JobLog load_log(const JobReplay& replay, const ReplayOptions& options);

}  // namespace orrery::cli
