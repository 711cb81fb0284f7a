// orrery replay: feeds a recorded log to the same policies and compares their decisions.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/choice_option.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/policy_option.hpp"
#include "core/error.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/run/replay.hpp"

namespace orrery::cli {
namespace {

struct ReplayLogOptions {
  std::string log;
  std::vector<std::string> overrides, policies;
  bool json = false;
};

std::string as_json(const ReplayResult& result) {
  nlohmann::ordered_json out;
  out["calls"] = result.calls;
  out["decisions"] = result.decisions;
  out["decision_trace_sha256"] = result.decision_trace_sha256;
  out["identical"] = result.first_difference.empty();
  out["states_compared"] = result.states_compared;
  out["first_difference"] = nullptr;
  if (!result.first_difference.empty()) out["first_difference"] = result.first_difference;
  return out.dump(2);
}

ReplayResult result_of(const ReplayLogOptions& options) {
  if (!options.policies.empty() && !options.overrides.empty()) {
    throw Error(ErrorKind::usage,
                "--set changes the policies of the log: leave --set or --policy "
                "out");
  }
  LogReader log(options.log);
  LogHeader header = read_header(log);
  if (!options.policies.empty()) {
    return replay_log(options.log, *log_policies(options.policies, header));
  }
  if (!header.has_choice()) return replay_log(options.log, options.overrides);
  for (const std::string& change : options.overrides) header.mutable_replay()->add_set(change);
  return replay_log(options.log, *recorded_scheduler(header));
}

int replay(const ReplayLogOptions& options) {
  const ReplayResult result = result_of(options);
  const bool identical = result.first_difference.empty();
  if (options.json) {
    fmt::print("{}\n", as_json(result));
  } else if (identical) {
    fmt::print("identical: {} calls, {} decisions, trace {}\n", result.calls, result.decisions,
               result.decision_trace_sha256);
    if (!result.states_compared) {
      fmt::print("states of the policies not compared: the log has an older format\n");
    }
  }
  if (identical) return 0;
  fmt::print(stderr, "{}: first difference: {}\n", options.log, result.first_difference);
  return static_cast<int>(ErrorKind::goal_missed);
}

}  // namespace

void add_replay(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<ReplayLogOptions>();
  CLI::App* command = app.add_subcommand("replay", "feed a recorded log to the same policies");
  command->add_option("LOG", options->log, "log that --record wrote")->required();
  command->add_flag("--json", options->json, "print one JSON object");
  command
      ->add_option("--set", options->overrides,
                   "change one policy parameter: predictive-rebalance.gain_threshold=0.1")
      ->type_name("POLICY.PARAMETER=VALUE")
      ->allow_extra_args(false);
  add_policy_option(*command, options->policies);
  add_examples(*command, {"orrery simulate train.yaml --record train.log",
                          "orrery replay train.log --policy mine.py:Mine",
                          "orrery replay train.log --set predictive-rebalance.gain_threshold=0.1"});
  command->callback([options, &chosen] { chosen = [options] { return replay(*options); }; });
}

}  // namespace orrery::cli
