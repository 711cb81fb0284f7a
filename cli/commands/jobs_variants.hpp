// Replays of the command `orrery jobs`: each policy, with and without each change. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/shared/choice_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/slurm_files.hpp"

namespace orrery::cli {

struct JobsOptions : ReplayOptions {
  std::string out;
  std::string scheduler;  ///< shell command of a scheduler of Batsim, or empty
  std::uint16_t scheduler_port = 28000;
  double scheduler_patience_s = 20;
  std::vector<std::string> what_if;
  std::optional<double> usd_per_gpu_hour;
  ChoiceOptions choice;
  SlurmFiles slurm;
  bool json = false, backtest = false;
};

/// Request for one replay of a job log: a policy, and the change of --what-if, if any.
struct Variant {
  JobReplay replay;
  std::string what_if;   ///< change; empty: none
  std::string label;     ///< policy and change
  std::string folder;    ///< folder of its files if the command has several replays
  bool chooses = false;  ///< true: the policy is the first of the choice
  std::size_t base = 0;  ///< index of the variant of the same policy without a change
};

/// Returns whether the simulator runs the replay, in a process of its own: jobs of simulated speed.
bool is_elsewhere(const Variant& variant);
/// Returns the replays of a command: each policy without a change, then each policy with each
/// change of --what-if. With --scheduler the external scheduler replaces all policies. Throws usage
/// errors.
std::vector<Variant> variants_of(const JobsOptions& given);
/// Returns the replays of the command, complete with the log, and adds lines about those left out.
/// Throws usage errors.
std::vector<Variant> complete_variants(const JobsOptions& options, const JobLog& log,
                                       std::vector<Variant> variants,
                                       std::vector<std::string>& remarks);

}  // namespace orrery::cli
