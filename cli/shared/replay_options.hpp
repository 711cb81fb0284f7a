// Common options of the commands that replay a job log (jobs, explain), and the resulting replay.
// One thread.
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

/// Options of the commands that replay a log.
struct ReplayOptions {
  /// `file`: job log, or the YAML file of a replay. Empty texts: as the file says.
  std::string file, cluster, placement, record, estimates, speed, conditions;
  std::vector<std::string> policies;
  std::vector<std::string> changes;  ///< values of --set
  std::vector<std::string> node_kinds;  ///< values of --node-kinds, KIND:NODES
  JobLogOptions log;
  std::uint32_t nodes = 0, gpus_per_node = 0;  ///< 0: as the file says
  std::optional<double> estimate_error;
  std::optional<std::uint64_t> seed;
};

/// Declares the options of a replay; `options` must outlive the parsing of the command line.
void declare_replay(CLI::App& command, const std::shared_ptr<ReplayOptions>& options);

/// Returns the replay that the file describes, changed by the options and then by `changes`
/// (KEY=VALUE of a replay's file, or POLICY.PARAMETER=VALUE). Of several policies, the replay has
/// the last. Throws a usage error if the cluster or the policy is missing or an option is not
/// valid, and bad_input for an invalid file or value.
JobReplay asked_for(const ReplayOptions& options, const std::vector<std::string>& changes = {});

/// Returns the names of the cluster's nodes by number, if --cluster is an operator's list of nodes;
/// otherwise nothing. Throws bad_input for an invalid list.
std::vector<std::string> node_names(const ReplayOptions& options);

/// Returns the job log of the replay, read with the options' --throughputs and --gpu; strictly if
/// the replay says so. Throws errors of load_job_log() and of check_estimates().
JobLog load_log(const JobReplay& replay, const ReplayOptions& options);
/// Throws bad_input if the replay needs requested times and no job has one.
void check_estimates(const JobReplay& replay, const std::vector<TraceJob>& jobs);
/// Returns the kind of estimates that a scheduler of this log has: requests, if there are any,
/// otherwise those of similar earlier jobs.
std::string known_estimates(const std::vector<TraceJob>& jobs);

}  // namespace orrery::cli
