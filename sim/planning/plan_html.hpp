// Report of a plan as one HTML page without scripts and network access: tables, and intervals of
// the dates as drawings. Called by `orrery plan --html` and the Python package. Pure function.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace orrery::sim {

/// Returns the page for the object of plan_json().
std::string plan_html(const nlohmann::ordered_json& plan);

}  // namespace orrery::sim
