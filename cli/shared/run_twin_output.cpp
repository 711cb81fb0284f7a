#include "cli/shared/run_twin_output.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

std::string seconds_text(Nanos at) {
  return at == kNever ? "never" : fmt::format("{:.1f} s", to_seconds(at));
}

ordered_json outlook_json(const sim::RunOutlook& of) {
  return {{"policy", of.policy},
          {"end", instant_json(of.end)},
          {"node_loss_s", of.survived > 0 ? ordered_json(of.node_cost_s) : ordered_json()},
          {"node_loss", of.survived > 0 ? cost_json(of.node_loss_s) : ordered_json()},
          {"node_losses_survived", of.survived}};
}

ordered_json forecast_json(const sim::RunForecast& of) {
  ordered_json policies = ordered_json::array();
  for (std::size_t i = 0; i < of.policies.size(); ++i) {
    policies.push_back(outlook_json(of.policies[i]));
    if (of.commit.median == 0 || i > of.other_commits.size()) continue;
    policies.back()["commit"] = instant_json(i == 0 ? of.commit : of.other_commits[i - 1]);
  }
  return {{"made_s", to_seconds(of.made)},
          {"next_step", of.next},
          {"commit", instant_json(of.commit)},
          {"policies", policies}};
}

std::string commit_text(const sim::RunForecast& of) {
  if (of.commit.median == kNever) return "never";
  return fmt::format("in {:.2f} s (80%: {:.2f} to {:.2f})", to_seconds(of.commit.median - of.begun),
                     to_seconds(of.commit.low80 - of.begun),
                     to_seconds(of.commit.high80 - of.begun));
}

std::string node_text(const sim::RunOutlook& of) {
  if (of.survived == 0) return "not survived";
  const std::string cost = fmt::format("{:+.1f} s (80%: {:+.1f} to {:+.1f})", of.node_cost_s,
                                       of.node_loss_s.low80, of.node_loss_s.high80);
  if (of.survived == 1) return cost;
  return fmt::format("{}, {:.0f}% survived", cost, 100 * of.survived);
}

}  // namespace

void print_run_twin(const sim::RunTwinReport& report, const DecisionTimes& times) {
  if (report.forecasts == 0) {
    print_field("forecasts", "0: expected a committed step before a multiple of --every, found "
                             "none; give a shorter --every");
    return;
  }
  print_field("forecasts", fmt::format("{}; {:.0f} ms (median), at most {:.0f} ms",
                                      grouped(report.forecasts), times.p50_ms, times.most_ms));
  print_field("next step", report.next_steps == 0
                               ? "no forecast whose step has ended"
                               : fmt::format("{} forecasts, median error {:.1f}% of the step",
                                             grouped(report.next_steps),
                                             100 * report.next_step_error));
  print_field("losses", grouped(report.losses));
  print_scores("steps", report.steps, 0);
  print_scores("ends", report.ends, report.ends_beyond);
  fmt::print("\n{:<28}{:>12}{:>24}{:>36}\n",
             fmt::format("newest, made at {:.1f} s", to_seconds(report.newest.made)), "end",
             "80%", "a node is lost");
  for (const sim::RunOutlook& each : report.newest.policies) {
    fmt::print("{:<28}{:>12}{:>24}{:>36}\n", each.policy, seconds_text(each.end.median),
               fmt::format("{} to {}", seconds_text(each.end.low80), seconds_text(each.end.high80)),
               node_text(each));
  }
  if (report.newest.policies.size() < 2) return;
  print_field("regret", fmt::format("{:.1f} s of the run's own policies (mean of the forecasts)",
                                   report.regret_s));
  for (const sim::PolicySwitch& choice : report.choices) {
    print_field("choice",
                fmt::format("at {:.0f} s {}", to_seconds(choice.at), choice_text(choice)));
  }
}

ordered_json run_twin_json(const sim::RunTwinReport& report, const DecisionTimes& times) {
  return {
      {"forecasts", report.forecasts},
      {"decision_p50_ms", times.p50_ms},
      {"decision_p99_ms", times.p99_ms},
      {"decision_max_ms", times.most_ms},
      {"next_steps", report.next_steps},
      {"next_step_error_p50",
       report.next_steps > 0 ? ordered_json(report.next_step_error) : ordered_json()},
      {"losses", report.losses},
      {"steps", scores_json(report.steps)},
      {"ends", scores_json(report.ends)},
      {"ends_beyond_horizon", report.ends_beyond},
      {"newest", report.forecasts > 0 ? forecast_json(report.newest) : ordered_json()},
      {"regret_s", report.regret_s},
      {"choices", choices_json(report.choices)}};
}

TwinFigures figures_of(const sim::RunTwinReport& report, const DecisionTimes& times,
                       const std::string& run) {
  const sim::RunForecast& newest = report.newest;
  TwinFigures out{.forecasts = report.forecasts,
                  .times = times,
                  .counts = {{"next_step", newest.next}, {"losses", report.losses}},
                  .now = {},
                  .costs = {},
                  .scores = {{"step", report.steps}, {"end", report.ends}},
                  .regret = {{"end_s", report.regret_s}},
                  .choice = newest.policies.front().policy,
                  .score = run_twin_json(report, times)};
  if (!report.choices.empty()) out.choice = report.choices.back().to;
  for (std::size_t i = 0; i < newest.policies.size(); ++i) {
    const sim::RunOutlook& each = newest.policies[i];
    const bool is_known = newest.commit.median > 0 && i <= newest.other_commits.size();
    if (is_known) {
      out.now.push_back({.job = std::to_string(newest.next),
                         .kind = "step",
                         .policy = each.policy,
                         .of = i == 0 ? newest.commit : newest.other_commits[i - 1]});
    }
    out.now.push_back({.job = run, .kind = "end", .policy = each.policy, .of = each.end});
    if (each.survived == 0) continue;
    out.costs.push_back({CostRow::Kind::end, each.policy, newest.made, each.node_loss_s});
  }
  return out;
}

std::vector<PolicyGoal> goals_of(const sim::RunForecast& forecast) {
  std::vector<PolicyGoal> goals;
  for (const sim::RunOutlook& each : forecast.policies) {
    const Nanos end = each.end.median;
    goals.push_back({each.policy, "end_s",
                     end == kNever ? std::nan("") : to_seconds(end - forecast.made)});
  }
  return goals;
}

std::string score_csv(const sim::RunTwinReport& report) {
  return score_table({{"step", &report.steps}, {"end", &report.ends}});
}

std::string forecast_line(const sim::RunForecast& forecast) {
  std::vector<std::string> policies;
  for (const sim::RunOutlook& each : forecast.policies) {
    policies.push_back(fmt::format("{}: end {} (80%: {} to {}), a lost node {}", each.policy,
                                   seconds_text(each.end.median), seconds_text(each.end.low80),
                                   seconds_text(each.end.high80), node_text(each)));
  }
  return fmt::format("{:.1f} s: step {} {}; {}", to_seconds(forecast.made), forecast.next,
                     commit_text(forecast), fmt::join(policies, "; "));
}

}  // namespace orrery::cli
