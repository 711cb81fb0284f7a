// Output of `orrery twin`: the result as text, as JSON and as tables (CSV). One thread.
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

// ---- parts of the results of all twins ----
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
std::string twin_json(const sim::TwinReport& report, const DecisionTimes& times);
/// Returns the score as score_table().
std::string score_csv(const sim::TwinReport& report);
/// Returns the line of one forecast for the operator: queue, next starts and policies. `clock`: the
/// instant of the forecast as text.
std::string forecast_line(const sim::QueueForecast& forecast, const std::string& clock);
/// Returns the reason of a choice: "srtf instead of fifo: forecast 120 instead of 300 (means of 12
/// forecasts)".
std::string choice_text(const sim::PolicySwitch& choice);

}  // namespace orrery::cli
