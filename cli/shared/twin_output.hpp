// Output of `orrery twin`: the result as text, as JSON and as tables (CSV). One thread.
#pragma once

#include <string>

#include "sim/forecast/twin.hpp"

namespace orrery::cli {

/// Wall time of forecasts in milliseconds: median, 99th percentile, most.
struct DecisionTimes {
  double p50_ms = 0, p99_ms = 0, most_ms = 0;
};

/// Prints the result as text.
void print_twin(const sim::TwinReport& report, const DecisionTimes& times);
/// Returns the result as a JSON object.
std::string twin_json(const sim::TwinReport& report, const DecisionTimes& times);
/// Returns the score as CSV, with a header line: a row for each kind of instant and horizon.
std::string score_csv(const sim::TwinReport& report);
/// Returns the line of one forecast for the operator: queue, next starts and policies. `clock`: the
/// instant of the forecast as text.
std::string forecast_line(const sim::QueueForecast& forecast, const std::string& clock);
/// Returns the reason of a choice: "srtf instead of fifo: forecast 120 instead of 300 (means of 12
/// forecasts)".
std::string choice_text(const sim::PolicySwitch& choice);

}  // namespace orrery::cli
