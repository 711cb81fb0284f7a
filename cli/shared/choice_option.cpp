#include "cli/shared/choice_option.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/shared/policy_option.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "sim/forecast/queue_forecast.hpp"

namespace orrery::cli {

CLI::Option* ChoiceOptions::add(CLI::App& command, const std::string& help, double least_every_s) {
  CLI::Option* const choose =
      command.add_option("--choose", policies, help)->type_name("P")->delimiter(',');
  one_of(*command.add_option("--by", goal, "goal of the choice: smallest mean"),
         sim::queue_goal_names())
      .capture_default_str()
      ->needs(choose);
  number(*command.add_option("--choose-every", every_s, "seconds between two forecasts"),
         least_every_s, 1e9)
      .type_name("S")
      ->capture_default_str()
      ->needs(choose);
  return choose;
}

void ChoiceOptions::check_policies(const std::vector<std::string>& active) const {
  if (policies.empty()) return;
  std::vector<std::string> all = policies;
  all.insert(all.end(), active.begin(), active.end());
  for (const std::string& each : all) {
    if (is_policy(each)) continue;
    throw Error(ErrorKind::usage, fmt::format("--choose: expected built-in policies, because their "
                                              "futures are simulated in this process: {}",
                                              no_such_policy(each)));
  }
  if (active.size() > 1) {
    throw Error(ErrorKind::usage,
                fmt::format("--choose: expected one active policy in --policy, got {}",
                            active.size()));
  }
}

JobChoice ChoiceOptions::job_choice() const {
  JobChoice choice;
  for (const std::string& each : policies) choice.add_policies(each);
  choice.set_by(goal);
  choice.set_every_s(every_s);
  return choice;
}

std::vector<std::string> policies_of_choice(const JobReplay& replay, const JobChoice& choice) {
  std::vector<std::string> names{replay.policy()};
  for (const std::string& each : choice.policies()) {
    if (std::find(names.begin(), names.end(), each) == names.end()) names.push_back(each);
  }
  return names;
}

std::unique_ptr<Policy> make_choice(const JobReplay& replay, const JobChoice& choice,
                                    sim::ColumnsOf columns, SwitchSink at_switch) {
  sim::PolicyChoice::Options options;
  for (const std::string& each : policies_of_choice(replay, choice)) {
    options.candidates.push_back(replay);
    options.candidates.back().set_policy(each);
  }
  options.goal = sim::queue_goal(choice.by());
  options.every = to_nanos(choice.every_s());
  options.columns = std::move(columns);
  options.at_switch = std::move(at_switch);
  return std::make_unique<sim::PolicyChoice>(std::move(options));
}

std::unique_ptr<Policy> recorded_scheduler(const LogHeader& header, SwitchSink at_switch) {
  if (!header.has_choice()) return scheduler_of(header.replay());
  return make_choice(header.replay(), header.choice(), sim::columns_of_request,
                     std::move(at_switch));
}

}  // namespace orrery::cli
