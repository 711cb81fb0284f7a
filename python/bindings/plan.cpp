// Binding of plans: options as texts and numbers, the plan as JSON, scenarios, HTML and the study
// that answers questions about its rows.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "core/error.hpp"
#include "python/bindings/bindings.hpp"
#include "sim/planning/found_layouts.hpp"
#include "sim/planning/plan.hpp"
#include "sim/planning/plan_html.hpp"
#include "sim/planning/plan_options.hpp"
#include "sim/planning/plan_tables.hpp"
#include "sim/planning/row_scenario.hpp"
#include "sim/planning/run_study.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;
using Numbers = std::vector<std::pair<std::string, double>>;
using Overrides = std::vector<std::string>;

void set_text(const std::string& key, const std::string& text, sim::PlanOptions& options) {
  const std::pair<const char*, std::string*> places[] = {{"model", &options.job.model},
                                                         {"clusters", &options.clusters},
                                                         {"gpus", &options.gpus},
                                                         {"tokens", &options.tokens},
                                                         {"deadline", &options.deadline},
                                                         {"budget", &options.budget},
                                                         {"start", &options.start},
                                                         {"failures", &options.failures},
                                                         {"instance", &options.instances},
                                                         {"grid", &options.grid},
                                                         {"prices", &options.prices},
                                                         {"measured", &options.measured},
                                                         {"recovery", &options.recovery},
                                                         {"stack", &options.job.stack},
                                                         {"precision", &options.job.precision}};
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

sim::PlanQuestion asked(const Texts& texts, const Numbers& numbers, const Overrides& overrides) {
  sim::PlanOptions options;
  for (const auto& [key, text] : texts) set_text(key, text, options);
  for (const auto& [key, value] : numbers) set_number(key, value, options);
  return sim::question_of(options, overrides);
}

/// Plan, its scenarios, its report and its study.
using Planned =
    std::tuple<std::string, std::vector<std::string>, std::string, std::unique_ptr<sim::RunStudy>>;

/// `found`: results of plan_layouts() for some of plan_tasks(); the others are searched here.
Planned plan(const Texts& texts, const Numbers& numbers, const Overrides& overrides,
             const std::vector<std::string>& found) {
  const py::gil_scoped_release release;
  sim::PlanQuestion question = asked(texts, numbers, overrides);
  for (const std::string& each : found) question.found.push_back(sim::parse_found(each));
  sim::Plan made = sim::make_plan(question);
  std::vector<std::string> scenarios;
  for (const sim::PlannedRun& row : made.rows) {
    scenarios.push_back(sim::scenario_text(row.scenario, row.scenario.description()));
  }
  const nlohmann::ordered_json json = sim::plan_json(question, made, 0);
  std::string html = sim::plan_html(json);
  auto study = std::make_unique<sim::RunStudy>(std::move(question), std::move(made));
  return {json.dump(), std::move(scenarios), std::move(html), std::move(study)};
}

py::bytes as_bytes(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

sim::RunChanges changes_of(const Overrides& overrides, std::optional<std::uint32_t> spare_nodes,
                           std::optional<std::uint64_t> every, double step_factor) {
  return {overrides, spare_nodes, every, step_factor};
}

/// Returns the row as JSON, the ends of its seeds, and the ends by failures alone, in seconds.
py::tuple play(sim::RunStudy& study, std::size_t row, const Overrides& overrides,
               std::optional<std::uint32_t> spare_nodes, std::optional<std::uint64_t> every,
               double step_factor) {
  std::optional<sim::PlannedRun> played;
  {
    const py::gil_scoped_release release;
    played = study.play_row(row, changes_of(overrides, spare_nodes, every, step_factor));
  }
  return py::make_tuple(sim::row_json(*played, row + 1).dump(), as_bytes(played->outcome.ends_s),
                        as_bytes(played->outcome.alone_ends_s));
}

/// Returns for each seed its step time in seconds, and the instants and steps of its course.
py::list courses(sim::RunStudy& study, std::size_t row, const Overrides& overrides,
                 std::optional<std::uint32_t> spare_nodes, std::optional<std::uint64_t> every,
                 double step_factor) {
  std::vector<sim::StudiedCourse> all;
  {
    const py::gil_scoped_release release;
    all = study.courses(row, changes_of(overrides, spare_nodes, every, step_factor));
  }
  py::list out;
  for (const sim::StudiedCourse& each : all) {
    std::vector<double> times, steps;
    for (const sim::CoursePoint& point : each.points) {
      times.push_back(to_seconds(point.at));
      steps.push_back(static_cast<double>(point.step));
    }
    out.append(py::make_tuple(each.step_s, as_bytes(times), as_bytes(steps)));
  }
  return out;
}

/// Returns the bytes of each owner, by stage.
py::list memory(const sim::RunStudy& study, std::size_t row) {
  py::list out;
  for (const MemoryUse& use : study.memory(row)) {
    py::dict stage;
    const std::pair<const char*, Bytes> owners[] = {
        {"parameters", use.parameters}, {"gradients", use.gradients},
        {"optimizer", use.optimizer},   {"activations", use.activations},
        {"logits", use.logits},         {"gathered", use.gathered},
        {"buffers", use.buffers},       {"update", use.update},
        {"reserved", use.reserved}};
    for (const auto& [owner, bytes] : owners) stage[owner] = bytes.value;
    out.append(stage);
  }
  return out;
}

py::list operators(const sim::RunStudy& study, std::size_t row) {
  py::list out;
  for (const sim::OperatorUse& use : study.operators(row)) {
    out.append(py::make_tuple(use.name, use.flop, use.bytes, use.seconds, use.count, use.peak));
  }
  return out;
}

/// Returns the memory bandwidth in bytes per second and the memory in bytes of a row's GPU.
py::tuple gpu_of(const sim::RunStudy& study, std::size_t row) {
  const sim::GpuFacts facts = study.gpu(row);
  return py::make_tuple(facts.name, facts.memory_bandwidth, facts.memory_bytes);
}

/// Returns the rows of the table of prices.
py::list prices(const std::string& file) {
  py::list out;
  for (const PriceRow& row : price_table(file)) {
    const bool is_grid = row.kind == PriceKind::grid;
    out.append(py::make_tuple(std::string(name_of(row.kind)), row.name,
                              is_grid ? py::object(py::none()) : py::object(py::str(row.gpu)),
                              is_grid ? py::object(py::none()) : py::object(py::int_(row.gpus)),
                              row.value, std::string(unit_of(row.kind)), row.date, row.source));
  }
  return out;
}

}  // namespace

void bind_plan(py::module_& module) {
  py::class_<sim::RunStudy>(module, "PlanStudy", "A plan whose rows can be played again.")
      .def("with_first_seeds", &sim::RunStudy::with_first_seeds, py::arg("seeds"))
      .def("play", &play, py::arg("row"), py::arg("overrides"), py::arg("spare_nodes"),
           py::arg("every"), py::arg("step_factor"))
      .def("courses", &courses, py::arg("row"), py::arg("overrides"), py::arg("spare_nodes"),
           py::arg("every"), py::arg("step_factor"))
      .def("memory", &memory, py::arg("row"))
      .def("operators", &operators, py::arg("row"))
      .def("gpu", &gpu_of, py::arg("row"));
  module.def("prices", &prices, py::arg("file"));
  module.def("plan", &plan, py::arg("texts"), py::arg("numbers"), py::arg("overrides"),
             py::arg("found"));
  module.def(
      "plan_tasks",
      [](const Texts& texts, const Numbers& numbers, const Overrides& overrides) {
        const py::gil_scoped_release release;
        return sim::plan_tasks(asked(texts, numbers, overrides));
      },
      py::arg("texts"), py::arg("numbers"), py::arg("overrides"));
  module.def(
      "plan_layouts",
      [](const Texts& texts, const Numbers& numbers, const Overrides& overrides,
         const std::string& cluster, std::uint32_t gpus) {
        const py::gil_scoped_release release;
        const sim::PlanQuestion question = asked(texts, numbers, overrides);
        return sim::found_text(sim::find_layouts(question, cluster, gpus));
      },
      py::arg("texts"), py::arg("numbers"), py::arg("overrides"), py::arg("cluster"),
      py::arg("gpus"));
}

}  // namespace orrery::python
