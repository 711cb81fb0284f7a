// A plan as JSON and CSV. Called by `orrery plan` and the Python package. Pure functions. Values
// that are not known, and dates of runs that never end, are null or empty.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "sim/planning/plan.hpp"

namespace orrery::sim {

/// Returns a row as an element of `candidates` of plan_json().
nlohmann::ordered_json row_json(const PlannedRun& row, std::size_t rank);

/// Returns the first `top` rows (0: all) and the reasons as one JSON object. Seconds, bytes, USD,
/// joules, kilograms.
nlohmann::ordered_json plan_json(const PlanQuestion& question, const Plan& plan, std::size_t top);

/// Returns the first `top` rows (0: all) as CSV, under a header; nested keys are joined by "_".
std::string plan_csv(const PlanQuestion& question, const Plan& plan, std::size_t top);

}  // namespace orrery::sim
