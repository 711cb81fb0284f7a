// Output of `orrery twin RUN`: the result as text, as JSON, as a table (CSV) and as figures of a
// status. One thread.
#pragma once

#include <string>
#include <vector>

#include "cli/shared/twin_output.hpp"
#include "sim/forecast/run_twin.hpp"

namespace orrery::cli {

/// Prints the result as text.
void print_run_twin(const sim::RunTwinReport& report, const DecisionTimes& times);
/// Returns the result as a JSON object.
nlohmann::ordered_json run_twin_json(const sim::RunTwinReport& report, const DecisionTimes& times);
/// Returns the figures after the newest forecast of the report. `run`: name of the run.
TwinFigures figures_of(const sim::RunTwinReport& report, const DecisionTimes& times,
                       const std::string& run);
/// Returns the goal of the policies at one forecast, the run's own first: seconds to the end.
std::vector<PolicyGoal> goals_of(const sim::RunForecast& forecast);
/// Returns the score as CSV with the header line of score_csv(sim::TwinReport).
std::string score_csv(const sim::RunTwinReport& report);
/// Returns the line of one forecast for the operator: next step, and under each policy the end of
/// the run and the cost of a lost node.
std::string forecast_line(const sim::RunForecast& forecast);

}  // namespace orrery::cli
