// Options --qos and --reservations of `orrery jobs`: files of Slurm, or YAML, that become
// parameters of the queue policy multifactor. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "traces/jobs/job_log.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {

/// Files of the options; empty: not given.
struct SlurmFiles {
  std::string qos;           ///< sacctmgr show qos -P, or YAML
  std::string reservations;  ///< scontrol show reservation, or YAML
};

/// Declares both options; `files` must outlive the parsing of the command line.
void declare_slurm_files(CLI::App& command, SlurmFiles& files);

/// Adds the parameters of the files to the replay, before those of --set, if its policy is
/// multifactor. `node_names`: names of the cluster's nodes by number; empty: not known, and a
/// reservation has as many GPUs as its nodes have. A YAML file has parameters of multifactor.
/// Throws bad_input for an invalid file, for reservations of Slurm beside a log without dates, and
/// for QOS beside a log without any.
void add_slurm_files(const SlurmFiles& files, const JobLog& log,
                     const std::vector<std::string>& node_names, JobReplay& replay);

/// Throws a usage error if a file is given and no replay has the policy multifactor.
void check_slurm_files(const SlurmFiles& files, const std::vector<std::string>& policies);

}  // namespace orrery::cli
