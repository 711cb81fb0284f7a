// Policies of `orrery run`: their options, and the run of a user's program under them. One thread,
// beside that of the policies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/shared/nccl_plugins.hpp"
#include "cli/shared/operator.hpp"
#include "cli/shared/program_status.hpp"
#include "live/programs/policies/program_attempts.hpp"
#include "policies/record/past.hpp"
#include "policies/run/policy_meter.hpp"
#include "policies/seam/policy.hpp"
#include "policies/seam/stack.hpp"
#include "topologies/cluster.hpp"
#include "traces/run.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::live {
class ProgramBackend;
}

namespace orrery::cli {

/// Options of `orrery run` about policies.
struct ProgramPolicyOptions {
  std::string scenario;               ///< file with the key `policies`, or empty
  std::vector<std::string> policies;  ///< values of --policy
  std::vector<PolicySpec> specs;      ///< policies of a loaded scenario, in place of a file
  std::string record;                 ///< log to write, or empty
  OperatorOptions operation;

  /// Declares the options; this object must outlive the parsing of the command line.
  void add(CLI::App& command);
  /// Returns true if the program runs under policies.
  bool has_policies() const { return !scenario.empty() || !policies.empty() || !specs.empty(); }
  /// Throws a usage error that names the first given option that has an effect on decisions only,
  /// if the program runs without policies.
  void require_policies() const;

 private:
  std::vector<const CLI::Option*> about_decisions_;  ///< options of this object that need a policy
};

/// Result of the policies of a program.
struct ProgramPolicyReport {
  std::vector<std::string> names;
  std::string mode;
  std::uint64_t decisions = 0;    ///< decisions that the policies took
  std::uint64_t applied = 0;      ///< decisions that had an effect
  std::string trace_sha256 = {};  ///< hash of the decision trace, as in the log
  std::string failure = {};       ///< message of a policy that failed; empty: none did
};

/// Policies for one program.
class ProgramPolicies {
 public:
  /// Loads the policies for a program `name` with `ranks` ranks. Throws as load_yaml() for the
  /// scenario, bad_input for a key without an effect on a program and for a policy of job queues in
  /// the scenario, as choose_policies(), and a usage error for options that contradict each other,
  /// other policies of job queues or too many ranks.
  ProgramPolicies(const ProgramPolicyOptions& options, const std::string& name,
                  std::uint32_t ranks);

  /// Returns true if the policies decide about lost ranks and the mode lets them.
  bool decide_recovery() const { return decides_recovery_; }
  const std::vector<std::string>& names() const { return names_; }

  /// Lets NCCL in the ranks load Orrery's plugins, whose files are in `folder`. Call before run()
  /// and before the first process is started. Changes the environment of this process.
  void offer_plugins(const std::string& folder);

  /// Runs the program to its end, and obeys the orders in the folder of `status`, which shows from
  /// then on the calls of the policies: this object must outlive `status`. Call once. Throws an
  /// environment Error, and ends the program before its first step, if a policy needs a part that
  /// the program lacks; errors as drive() and ProgramAttempts.
  ProgramPolicyReport run(live::ProgramAttempts& attempts, ProgramStatus& status);

 private:
  /// Returns the rules of a call of the policies, during which `backend` attends to the ranks.
  PolicyMeter::Rules meter_rules(live::ProgramBackend& backend) const;
  std::string past_problem() const;
  void take_past(std::optional<Past>& past, const live::ProgramAttempts& attempts) const;
  /// Returns the ordered changes of parameters that the policies have; refuses others in a line.
  std::vector<ParameterSet> drain_parameters(ProgramStatus& status) const;

  const ProgramPolicyOptions& options_;
  RunRequest request_;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<std::string> names_;
  std::shared_ptr<PolicyStack> stack_;
  PolicyMeter meter_;
  bool decides_recovery_ = false;
  NcclPlugins plugins_;
};

}  // namespace orrery::cli
