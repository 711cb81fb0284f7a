// Output of `orrery twin RUN`: the result as text, as JSON and as a table (CSV). One thread.
#pragma once

#include <string>

#include "cli/shared/twin_output.hpp"
#include "sim/forecast/run_twin.hpp"

namespace orrery::cli {

/// Prints the result as text.
void print_run_twin(const sim::RunTwinReport& report, const DecisionTimes& times);
/// Returns the result as a JSON object.
std::string run_twin_json(const sim::RunTwinReport& report, const DecisionTimes& times);
/// Returns the score as CSV with the header line of score_csv(sim::TwinReport).
std::string score_csv(const sim::RunTwinReport& report);
/// Returns the line of one forecast for the operator: next step, and under each policy the end of
/// the run and the cost of a lost node.
std::string forecast_line(const sim::RunForecast& forecast);

}  // namespace orrery::cli
