// Binding of plans: options as texts and numbers, the plan as JSON, scenarios and HTML.
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "core/error.hpp"
#include "python/bindings/bindings.hpp"
#include "sim/planning/plan.hpp"
#include "sim/planning/plan_html.hpp"
#include "sim/planning/plan_options.hpp"
#include "sim/planning/plan_tables.hpp"
#include "sim/planning/row_scenario.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;
using Numbers = std::vector<std::pair<std::string, double>>;

void set_text(const std::string& key, const std::string& text, sim::PlanOptions& options) {
  const std::pair<const char*, std::string*> places[] = {
      {"model", &options.job.model},   {"clusters", &options.clusters},
      {"gpus", &options.gpus},         {"tokens", &options.tokens},
      {"deadline", &options.deadline}, {"budget", &options.budget},
      {"start", &options.start},       {"failures", &options.failures},
      {"stack", &options.job.stack},   {"precision", &options.job.precision}};
  for (const auto& [name, place] : places) {
    if (key == name) *place = text;
  }
}

/// Throws a usage Error for a number that the field cannot hold.
std::uint32_t count_of(const std::string& key, double value) {
  if (value >= 0 && value <= 4e9) return static_cast<std::uint32_t>(value);
  throw Error(ErrorKind::usage, key + ": expected a count from 0 to 4e9");
}

void set_number(const std::string& key, double value, sim::PlanOptions& options) {
  if (key == "confidence") options.confidence = value;
  if (key == "batch_change") options.batch_change = value;
  if (key == "seeds") options.seeds = count_of(key, value);
  if (key == "sequence_length") options.job.sequence_length = count_of(key, value);
  if (key == "global_batch") options.job.global_batch = count_of(key, value);
  if (key == "tokens_per_batch") options.job.tokens_per_batch = value;
}

std::tuple<std::string, std::vector<std::string>, std::string> plan(
    const Texts& texts, const Numbers& numbers, const std::vector<std::string>& overrides) {
  const py::gil_scoped_release release;
  sim::PlanOptions options;
  for (const auto& [key, text] : texts) set_text(key, text, options);
  for (const auto& [key, value] : numbers) set_number(key, value, options);
  const sim::PlanQuestion question = sim::question_of(options, overrides);
  const sim::Plan made = sim::make_plan(question);
  std::vector<std::string> scenarios;
  for (const sim::PlannedRun& row : made.rows) {
    scenarios.push_back(sim::scenario_text(row.scenario, row.scenario.description()));
  }
  const nlohmann::ordered_json json = sim::plan_json(question, made, 0);
  return {json.dump(), std::move(scenarios), sim::plan_html(json)};
}

}  // namespace

void bind_plan(py::module_& module) {
  module.def("plan", &plan, py::arg("texts"), py::arg("numbers"), py::arg("overrides"));
}

}  // namespace orrery::python
