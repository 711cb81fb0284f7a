// orrery set: changes a parameter of a policy in a live run, or the mode of a run on a cluster.
#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/cluster_status.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/run_orders.hpp"
#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/run/registry.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

/// Order that sets a parameter.
ordered_json set_order(const ParameterSet& set) {
  return {
      {"set", {{"policy", set.policy}, {"parameter", set.parameter}, {"value", set.value}}}};
}

/// Sends `mode=value` to a run on a cluster, which refuses a mode that it cannot change to.
int set_mode(const std::string& name, const std::string& value) {
  if (!find_named<HandOverMode>(value)) {
    throw Error(ErrorKind::usage,
                fmt::format("mode: expected {}, got '{}'{}",
                            fmt::join(all_names<HandOverMode>(), " or "), value,
                            did_you_mean(value, all_names<HandOverMode>())));
  }
  const LiveRun run = find_run(name);
  if (!run.is_cluster()) {
    throw Error(ErrorKind::usage,
                fmt::format("mode: expected a run of orrery cluster, whose mode can change, found "
                            "run {} ({}); start it again with --mode {}",
                            run.id, run.text("scenario"), value));
  }
  const std::string mode(kModeParameter);
  order_and_wait(run, set_order({.policy = {}, .parameter = mode, .value = value}), mode,
                 mode + " = ");
  return 0;
}

/// Sends `policy.parameter=value`, as in the scenario, or a mode. Refuses a text that cannot be a
/// parameter of that policy; the run itself refuses a value with which it cannot continue.
int set_parameter(const std::string& name, const std::string& setting) {
  const std::size_t dot = setting.find('.'), equals = setting.find('=');
  if (equals != std::string::npos && setting.substr(0, equals) == kModeParameter) {
    return set_mode(name, setting.substr(equals + 1));
  }
  if (dot == std::string::npos || equals == std::string::npos || dot > equals) {
    throw Error(ErrorKind::usage,
                fmt::format("expected POLICY.PARAMETER=VALUE, such as recover.how=shrink, got "
                            "'{}'",
                            setting));
  }
  const ParameterSet set = parameter_set(setting);
  set_field(*policy_parameters(set.policy, {}), set.parameter, set.value, "orrery set");
  const LiveRun run = find_run(name);
  const auto policies = run.list("policies");
  if (std::find(policies.begin(), policies.end(), set.policy) == policies.end()) {
    throw Error(ErrorKind::usage, fmt::format("run {} has no policy '{}'; it has: {}", run.id,
                                              set.policy, policies.dump()));
  }
  if (run.is_cluster() || run.is_twin()) {
    order_and_wait(run, set_order(set), set_name(set), set_name(set) + " = ");
    return 0;
  }
  leave_order(run, set_order(set));
  fmt::print("run {} continues with {} = {}\n", run.id, set_name(set), set.value);
  return 0;
}

struct SetOptions {
  std::string run, setting;
};

}  // namespace

void add_set(CLI::App& app, Action& chosen) {
  CLI::App* change = app.add_subcommand(
      "set", "change a policy's parameter in a live run, or the mode of a run on a cluster");
  const auto changed = std::make_shared<SetOptions>();
  add_run_argument(*change, changed->run, true);
  change
      ->add_option("SETTING", changed->setting,
                   "POLICY.PARAMETER=VALUE, as in the scenario, or mode=shadow, approve or drive")
      ->required();
  add_examples(*change, {"orrery set a1B2c3 predictive-rebalance.gain_threshold=0.1",
                         "orrery set slurm mode=drive"});
  change->callback([changed, &chosen] {
    chosen = [changed] { return set_parameter(changed->run, changed->setting); };
  });
}

}  // namespace orrery::cli
