#include "cli/shared/twin_output.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

void print_accuracy(std::string_view when, const sim::DurationAccuracy& of) {
  if (of.jobs == 0) return;
  fmt::print("{:<12}{:>10}{:>16.3f}{:>16.3f}{:>16.3f}{:>16.3f}\n", when, grouped(of.jobs),
             of.model_median, of.by_size_median, of.model_mean_log, of.by_size_mean_log);
}

constexpr std::array<const char*, sim::kQueueGoals> kGoals{"wait_mean_s", "jct_mean_s",
                                                           "slowdown_mean"};

ordered_json goals_json(const std::array<double, sim::kQueueGoals>& goals) {
  ordered_json out;
  for (std::size_t goal = 0; goal < goals.size(); ++goal) out[kGoals[goal]] = goals[goal];
  return out;
}

ordered_json accuracy_json(const sim::DurationAccuracy& of) {
  return {{"jobs", of.jobs},
          {"factor_p50", of.model_median},
          {"by_size_factor_p50", of.by_size_median},
          {"log_error_mean", of.model_mean_log},
          {"by_size_log_error_mean", of.by_size_mean_log}};
}

ordered_json seconds_json(Nanos at) {
  return at == kNever ? ordered_json() : ordered_json(to_seconds(at));
}

std::string minutes_ahead(Nanos at, Nanos made) {
  return at == kNever ? "later" : fmt::format("{:.1f}", to_seconds(at - made) / 60);
}

/// Returns the forecasts of a queue, the next start first, each job under each policy.
std::vector<ForecastRow> rows_of(const sim::QueueForecast& newest) {
  std::vector<const sim::JobForecast*> order;
  for (const sim::JobForecast& job : newest.jobs) order.push_back(&job);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->start.median < b->start.median;
  });
  std::vector<ForecastRow> rows;
  for (const sim::JobForecast* job : order) {
    for (std::size_t i = 0; i < newest.policies.size(); ++i) {
      const std::string& policy = newest.policies[i].policy;
      const sim::InstantForecast& start = i == 0 ? job->start : job->alternatives[i - 1].start;
      const sim::InstantForecast& end = i == 0 ? job->end : job->alternatives[i - 1].end;
      rows.push_back({.job = job->job, .kind = "start", .policy = policy, .of = start});
      rows.push_back({.job = job->job, .kind = "end", .policy = policy, .of = end});
    }
  }
  return rows;
}

/// Returns the costs of losing a node, or nothing without a forecast.
std::vector<CostRow> costs_of(const sim::QueueForecast& newest) {
  if (newest.node_loss.samples == 0) return {};
  const std::string& policy = newest.policies.front().policy;
  const sim::NodeLoss& loss = newest.node_loss;
  return {{CostRow::Kind::wait, policy, newest.made, loss.wait_s},
          {CostRow::Kind::jct, policy, newest.made, loss.jct_s},
          {CostRow::Kind::gpu_time, policy, newest.made, loss.lost_gpu_s}};
}

ordered_json node_loss_json(const sim::TwinReport& report) {
  const sim::NodeLoss& loss = report.node_loss;
  if (loss.samples == 0) return {};
  return {{"made_s", to_seconds(report.node_loss_made)},
          {"samples", loss.samples},
          {cost_name(CostRow::Kind::wait), cost_json(loss.wait_s)},
          {cost_name(CostRow::Kind::jct), cost_json(loss.jct_s)},
          {cost_name(CostRow::Kind::gpu_time), cost_json(loss.lost_gpu_s)}};
}

}  // namespace

std::string_view cost_name(CostRow::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames{"end_s", "wait_mean_s", "jct_mean_s",
                                                   "lost_gpu_s"};
  return kNames[static_cast<std::size_t>(kind)];
}

ordered_json cost_json(const sim::CostForecast& of) {
  return {{"mean", of.mean},     {"median", of.median}, {"low80", of.low80},
          {"high80", of.high80}, {"low95", of.low95},   {"high95", of.high95}};
}

std::string cost_text(const sim::CostForecast& of, std::string_view unit) {
  return fmt::format("{:+.1f} {} (80%: {:+.1f} to {:+.1f})", of.mean, unit, of.low80, of.high80);
}

ordered_json instant_json(const sim::InstantForecast& of) {
  return {{"median_s", seconds_json(of.median)},
          {"low80_s", seconds_json(of.low80)},
          {"high80_s", seconds_json(of.high80)},
          {"low95_s", seconds_json(of.low95)},
          {"high95_s", seconds_json(of.high95)}};
}

std::string now_table(const std::vector<ForecastRow>& rows, const std::vector<CostRow>& costs,
                      int decimals) {
  std::string text = "job_id,kind,made_s,median_s,low80_s,high80_s,low95_s,high95_s,policy\n";
  for (const ForecastRow& row : rows) {
    sim::write_forecast(row.job, row.kind, row.of, row.policy, decimals, text);
  }
  for (const CostRow& row : costs) {
    fmt::format_to(std::back_inserter(text),
                   "{},node_loss,{:.{}f},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{}\n",
                   cost_name(row.kind), to_seconds(row.made), decimals, row.of.median, row.of.low80,
                   row.of.high80, row.of.low95, row.of.high95, row.policy);
  }
  return text;
}

void print_field(std::string_view what, const std::string& text) {
  fmt::print("{:<12}{}\n", what, text);
}

void print_scores(std::string_view kind, const std::vector<sim::ScoreRow>& rows,
                  std::uint64_t beyond) {
  fmt::print("\n{:<12}{:>10}{:>16}{:>12}{:>12}{:>10}{:>10}\n", kind, "forecasts", "median error s",
             "in 1 min", "in 10 min", "in 80%", "in 95%");
  for (const sim::ScoreRow& row : rows) {
    fmt::print("{:<12}{:>10}{:>16.1f}{:>11.1f}%{:>11.1f}%{:>9.1f}%{:>9.1f}%\n", row.horizon,
               grouped(row.forecasts), row.median_error_s, 100 * row.within_minute,
               100 * row.within_ten_minutes, 100 * row.coverage80, 100 * row.coverage95);
  }
  if (beyond > 0) {
    print_field("", fmt::format("{} more were beyond the horizon of the futures", grouped(beyond)));
  }
}

ordered_json scores_json(const std::vector<sim::ScoreRow>& rows) {
  ordered_json out = ordered_json::array();
  for (const sim::ScoreRow& row : rows) {
    out.push_back({{"horizon", row.horizon},
                   {"forecasts", row.forecasts},
                   {"median_error_s", row.median_error_s},
                   {"within_1_min", row.within_minute},
                   {"within_10_min", row.within_ten_minutes},
                   {"coverage_80", row.coverage80},
                   {"coverage_95", row.coverage95}});
  }
  return out;
}

ordered_json choices_json(const std::vector<sim::PolicySwitch>& choices) {
  ordered_json out = ordered_json::array();
  for (const sim::PolicySwitch& choice : choices) {
    out.push_back({{"at_s", to_seconds(choice.at)},
                   {"from", choice.from},
                   {"to", choice.to},
                   {"forecast_from", choice.forecast_from},
                   {"forecast_to", choice.forecast_to}});
  }
  return out;
}

std::string score_table(
    const std::vector<std::pair<std::string_view, const std::vector<sim::ScoreRow>*>>& kinds) {
  std::string text =
      "kind,horizon,forecasts,median_error_s,within_1_min,within_10_min,coverage_80,coverage_95\n";
  for (const auto& [kind, rows] : kinds) {
    for (const sim::ScoreRow& row : *rows) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n",
                     kind, row.horizon, row.forecasts, row.median_error_s, row.within_minute,
                     row.within_ten_minutes, row.coverage80, row.coverage95);
    }
  }
  return text;
}

void print_twin(const sim::TwinReport& report, const DecisionTimes& times) {
  print_field("forecasts", fmt::format("{}, at most {} jobs waiting; {:.0f} ms (median), {:.0f} ms "
                                      "(p99), at most {:.0f} ms",
                                      grouped(report.forecasts), grouped(report.most_waiting),
                                      times.p50_ms, times.p99_ms, times.most_ms));
  print_scores("starts", report.starts, report.starts_beyond);
  print_scores("ends", report.ends, report.ends_beyond);
  fmt::print("\n{:<12}{:>10}{:>16}{:>16}{:>16}{:>16}\n", "durations", "jobs", "factor (median)",
             "by size", "log error", "by size");
  print_accuracy("first week", report.first_week);
  print_accuracy("first quarter", report.first_quarter);
  print_accuracy("second half", report.second_half);
  print_accuracy("all", report.all);
  fmt::print("\n{:<28}{:>14}{:>14}{:>14}\n", "forecast means", "wait s", "JCT s", "slowdown");
  for (const sim::PolicyOutlook& each : report.policies) {
    fmt::print("{:<28}{:>14.1f}{:>14.1f}{:>14.2f}\n", each.policy, each.goals[0], each.goals[1],
               each.goals[2]);
  }
  if (report.node_loss.samples > 0) {
    fmt::print("\n");
    print_field("lost node", fmt::format("mean wait {}, JCT {}, work {}",
                                         cost_text(report.node_loss.wait_s, "s"),
                                         cost_text(report.node_loss.jct_s, "s"),
                                         cost_text(report.node_loss.lost_gpu_s, "GPU-s")));
  }
  if (report.policies.size() < 2) return;
  fmt::print("{:<28}{:>14.1f}{:>14.1f}{:>14.2f}\n", "regret of the active policy", report.regret[0],
             report.regret[1], report.regret[2]);
  for (const sim::PolicySwitch& choice : report.choices) {
    print_field("choice",
                fmt::format("at {:.0f} s {}", to_seconds(choice.at), choice_text(choice)));
  }
}

ordered_json twin_json(const sim::TwinReport& report, const DecisionTimes& times) {
  ordered_json policies = ordered_json::array();
  for (const sim::PolicyOutlook& each : report.policies) {
    ordered_json row{{"policy", each.policy}};
    row.update(goals_json(each.goals));
    policies.push_back(std::move(row));
  }
  return {{"forecasts", report.forecasts},
          {"most_waiting", report.most_waiting},
          {"decision_p50_ms", times.p50_ms},
          {"decision_p99_ms", times.p99_ms},
          {"decision_max_ms", times.most_ms},
          {"starts", scores_json(report.starts)},
          {"starts_beyond_horizon", report.starts_beyond},
          {"ends", scores_json(report.ends)},
          {"ends_beyond_horizon", report.ends_beyond},
          {"durations",
           {{"first_week", accuracy_json(report.first_week)},
            {"first_quarter", accuracy_json(report.first_quarter)},
            {"second_half", accuracy_json(report.second_half)},
            {"all", accuracy_json(report.all)}}},
          {"policies", policies},
          {"regret", goals_json(report.regret)},
          {"node_loss", node_loss_json(report)},
          {"choices", choices_json(report.choices)}};
}

std::vector<PolicyGoal> goals_of(const sim::QueueForecast& forecast) {
  std::vector<PolicyGoal> goals;
  for (const sim::PolicyOutlook& each : forecast.policies) {
    for (std::size_t goal = 0; goal < kGoals.size(); ++goal) {
      goals.push_back({each.policy, kGoals[goal], each.goals[goal]});
    }
  }
  return goals;
}

TwinFigures figures_of(const sim::TwinReport& report, const DecisionTimes& times,
                       const sim::QueueForecast& newest) {
  TwinFigures out{.forecasts = report.forecasts,
                  .times = times,
                  .counts = {{"waiting", newest.jobs.size()}, {"running", newest.running}},
                  .now = rows_of(newest),
                  .costs = costs_of(newest),
                  .scores = {{"start", report.starts}, {"end", report.ends}},
                  .regret = {},
                  .choice = report.policies.front().policy,
                  .score = twin_json(report, times)};
  for (std::size_t goal = 0; goal < kGoals.size(); ++goal) {
    out.regret.emplace_back(kGoals[goal], report.regret[goal]);
  }
  if (!report.choices.empty()) out.choice = report.choices.back().to;
  return out;
}

std::string score_csv(const sim::TwinReport& report) {
  return score_table({{"start", &report.starts}, {"end", &report.ends}});
}

std::string choice_text(const sim::PolicySwitch& choice) {
  if (choice.is_return) {
    return fmt::format("{} instead of {}: realised {:.6g} since the switch, {} would have had "
                       "{:.6g}",
                       choice.to, choice.from, choice.forecast_from, choice.to, choice.forecast_to);
  }
  return fmt::format("{} instead of {}: forecast {:.6g} instead of {:.6g} (means of {} forecasts)",
                     choice.to, choice.from, choice.forecast_to, choice.forecast_from,
                     choice.forecasts);
}

std::string forecast_line(const sim::QueueForecast& forecast, const std::string& clock) {
  constexpr std::size_t kShown = 3;
  std::vector<const sim::JobForecast*> order;
  for (const sim::JobForecast& job : forecast.jobs) order.push_back(&job);
  const auto shown = static_cast<std::ptrdiff_t>(std::min(order.size(), kShown));
  std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                    [](const auto* a, const auto* b) { return a->start.median < b->start.median; });
  order.resize(static_cast<std::size_t>(shown));
  std::vector<std::string> next;
  for (const sim::JobForecast* job : order) {
    next.push_back(fmt::format("{} in {} min (80%: {} to {})", job->job,
                               minutes_ahead(job->start.median, forecast.made),
                               minutes_ahead(job->start.low80, forecast.made),
                               minutes_ahead(job->start.high80, forecast.made)));
  }
  std::vector<std::string> waits;
  for (const sim::PolicyOutlook& each : forecast.policies) {
    waits.push_back(fmt::format("{} {:.0f} s", each.policy, each.goals[0]));
  }
  const bool has_loss = forecast.node_loss.samples > 0;
  const std::string loss =
      has_loss ? "; a lost node: " + cost_text(forecast.node_loss.wait_s, "s") : "";
  return fmt::format("{} {} waiting, {} running; next: {}; mean wait: {}{}", clock,
                     forecast.jobs.size(), forecast.running, fmt::join(next, ", "),
                     fmt::join(waits, ", "), loss);
}

}  // namespace orrery::cli
