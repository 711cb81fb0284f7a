// Output of `orrery twin`: the result as text, as JSON, as tables (CSV) and as the figures of a
// status. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/forecast/twin.hpp"

namespace orrery::cli {

/// Wall time of forecasts in milliseconds: median, 99th percentile, most.
struct DecisionTimes {
  double p50_ms = 0, p99_ms = 0, most_ms = 0;
};

/// Newest forecast of one instant under one policy.
struct ForecastRow {
  std::string job;        ///< id of the job; of a run its step, or its scenario
  std::string_view kind;  ///< "start", "end" or "step"
  std::string policy;
  sim::InstantForecast of;
};

/// Newest forecast of the cost of losing a node under one policy.
struct CostRow {
  /// Quantity that a loss costs: delay of the end of a run, mean wait and completion time of jobs,
  /// all in seconds; work that begins anew, in GPU-seconds.
  enum class Kind : std::uint8_t { end, wait, jct, gpu_time };
  Kind kind = Kind::end;
  std::string policy;
  Nanos made = 0;
  sim::CostForecast of;
};

/// Returns the name of a cost in tables and in the status: "end_s", "wait_mean_s", "jct_mean_s" or
/// "lost_gpu_s".
std::string_view cost_name(CostRow::Kind kind);

/// Goal of a policy at one forecast; NaN: not known.
struct PolicyGoal {
  std::string policy, goal;
  double value = 0;
};

/// Figures of a twin after its newest forecast.
struct TwinFigures {
  std::uint64_t forecasts = 0;
  DecisionTimes times;
  std::vector<std::pair<std::string, std::uint64_t>> counts;  ///< named counts at this forecast
  /// all instants of the newest forecast, the next first, each under each policy
  std::vector<ForecastRow> now;
  std::vector<CostRow> costs;  ///< costs of losing a node
  std::vector<std::pair<std::string, std::vector<sim::ScoreRow>>> scores;  ///< score by kind
  std::vector<std::pair<std::string, double>> regret;                      ///< regret by goal
  std::string choice;            ///< policy of the newest choice
  nlohmann::ordered_json score;  ///< result so far
};

// ---- parts of the results of all twins ----
/// Returns the median and the limits of the intervals in seconds; null: beyond the horizon.
nlohmann::ordered_json instant_json(const sim::InstantForecast& of);
/// Returns mean, median and limits of the intervals of a cost.
nlohmann::ordered_json cost_json(const sim::CostForecast& of);
/// Returns a cost as text: "+12.0 s (80%: +4.0 to +31.5)".
std::string cost_text(const sim::CostForecast& of, std::string_view unit);
/// Returns the newest forecasts as CSV, with a header line, and then the costs of losing a node.
std::string now_table(const std::vector<ForecastRow>& rows, const std::vector<CostRow>& costs,
                      int decimals);
/// Prints the line of one key.
void print_field(std::string_view key, const std::string& text);
/// Prints the score of one kind of instant; `beyond`: forecasts beyond the horizon.
void print_scores(std::string_view kind, const std::vector<sim::ScoreRow>& rows,
                  std::uint64_t beyond);
/// Returns the score of one kind of instant as a JSON list.
nlohmann::ordered_json scores_json(const std::vector<sim::ScoreRow>& rows);
/// Returns choices as a JSON list.
nlohmann::ordered_json choices_json(const std::vector<sim::PolicySwitch>& choices);
/// Returns the scores of kinds of instants as CSV, with a header line: a row for each kind and
/// horizon.
std::string score_table(
    const std::vector<std::pair<std::string_view, const std::vector<sim::ScoreRow>*>>& kinds);

// ---- the twin of a queue ----
/// Prints the result as text.
void print_twin(const sim::TwinReport& report, const DecisionTimes& times);
/// Returns the result as a JSON object.
nlohmann::ordered_json twin_json(const sim::TwinReport& report, const DecisionTimes& times);
/// Returns the figures after this forecast.
TwinFigures figures_of(const sim::TwinReport& report, const DecisionTimes& times,
                       const sim::QueueForecast& newest);
/// Returns the goals of the policies at one forecast, the active policy first.
std::vector<PolicyGoal> goals_of(const sim::QueueForecast& forecast);
/// Returns the score as score_table().
std::string score_csv(const sim::TwinReport& report);
/// Returns the line of one forecast for the operator: queue, next starts and policies. `clock`: the
/// instant of the forecast as text.
std::string forecast_line(const sim::QueueForecast& forecast, const std::string& clock);
/// Returns the reason of a choice: "srtf instead of fifo: forecast 120 instead of 300 (means of 12
/// forecasts)".
std::string choice_text(const sim::PolicySwitch& choice);

}  // namespace orrery::cli
