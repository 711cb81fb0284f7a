// Options --choose, --by and --choose-every: forecasts choose among several queue policies. Used by
// `orrery jobs` and `orrery cluster`; a log that records the choice is replayed with the same
// choice. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "policies/seam/policy.hpp"
#include "sim/forecast/policy_choice.hpp"
#include "traces/scenario.pb.h"
#include "traces/trace.pb.h"

namespace orrery::cli {

/// Options of a choice.
struct ChoiceOptions {
  std::vector<std::string> policies;  ///< candidates beside the active policy; empty: no choice
  std::string goal = "wait";
  double every_s = 3600;

  /// Declares the options; this object must outlive the parsing of the command line. `help`: that
  /// of --choose. `least_every_s`: shortest interval. Returns the option --choose.
  CLI::Option* add(CLI::App& command, const std::string& help, double least_every_s);
  /// Throws a usage error if there is a choice, and one of its policies or of `active`, the values
  /// of --policy, is no built-in policy, or `active` names several.
  void check_policies(const std::vector<std::string>& active) const;
  /// Returns the choice for the header of a log.
  JobChoice job_choice() const;
};

/// Function that receives each switch of the policy.
using SwitchSink = std::function<void(const sim::PolicySwitch&)>;

/// Returns the names of the policies of a choice: that of the replay, then the candidates.
std::vector<std::string> policies_of_choice(const JobReplay& replay, const JobChoice& choice);
/// Returns the policy that chooses among that of the replay and the candidates, not started.
/// Throws as sim::queue_goal() and sim::PolicyChoice.
std::unique_ptr<Policy> make_choice(const JobReplay& replay, const JobChoice& choice,
                                    sim::ColumnsOf columns, SwitchSink at_switch);

/// Returns the policy that schedules the jobs of a recorded log, not started: the choice, if the
/// header has one, otherwise as scheduler_of(). Throws as both.
std::unique_ptr<Policy> recorded_scheduler(const LogHeader& header, SwitchSink at_switch = {});

}  // namespace orrery::cli
