#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "policies/run/known_names.hpp"
#include "python/bindings/bindings.hpp"
#include "sim/estimates/predict/layouts.hpp"
#include "sim/estimates/predict/prediction.hpp"
#include "topologies/builder.hpp"
#include "traces/published/published_run.hpp"
#include "traces/scenario/layout_question.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;

std::string ranked(const AskedScenario& asked, std::size_t top) {
  const py::gil_scoped_release release;
  const Scenario& scenario = asked.loaded.scenario;
  const Job& job = scenario.job();
  if (!scenario.has_job() || job.has_program() || !job.model().builtin().empty()) {
    throw Error(ErrorKind::bad_input,
                "expected a key 'job' with a transformer, by preset or by "
                "its dimensions: other work has no layouts");
  }
  const Cluster cluster = build_cluster(scenario.cluster(), asked.loaded.places, "cluster");
  const estimates::LayoutSearch search = estimates::search_layouts(
      job, cluster, {.habits = asked.habits, .complete = asked.assumed.empty()});
  return estimates::layouts_json(search, asked.assumed, top);
}

std::string layouts_asked(const Cells& said, std::uint32_t gpus, std::uint32_t sequence_length,
                          std::uint32_t global_batch, double tokens_per_batch,
                          const std::vector<std::string>& overrides, std::size_t top) {
  static constexpr std::array<std::pair<std::string_view, std::string LayoutQuestion::*>, 4> kTexts{
      {{"model", &LayoutQuestion::model},
       {"cluster", &LayoutQuestion::cluster},
       {"stack", &LayoutQuestion::stack},
       {"precision", &LayoutQuestion::precision}}};
  LayoutQuestion asked;
  for (const auto& [key, text] : said) {
    for (const auto& [name, member] : kTexts) {
      if (key == name) asked.*member = text;
    }
  }
  asked.gpus = gpus;
  asked.sequence_length = sequence_length;
  asked.global_batch = global_batch;
  asked.tokens_per_batch = tokens_per_batch;
  return ranked(scenario_of(asked, overrides), top);
}

py::dict prediction_of(const estimates::Prediction& prediction) {
  py::dict out;
  const auto put = [&](const char* key, double value) {
    out[key] = prediction.supported ? py::object(py::float_(value)) : py::none();
  };
  out["id"] = prediction.id;
  put("iter_time_s", prediction.iter_time_s);
  put("p10_s", prediction.p10_s);
  put("p90_s", prediction.p90_s);
  put("p2_5_s", prediction.p2_5_s);
  put("p97_5_s", prediction.p97_5_s);
  put("memory_bytes", prediction.memory_bytes);
  put("reserved_bytes", prediction.reserved_bytes);
  put("reserved_p10", prediction.reserved_p10);
  put("reserved_p90", prediction.reserved_p90);
  out["status"] = estimates::status_of(prediction);
  out["reason"] = prediction.reason;
  out["state"] = std::string(name_of(prediction.state));
  return out;
}

py::list predict(const std::vector<Cells>& rows) {
  std::vector<estimates::Prediction> predictions;
  {
    const py::gil_scoped_release release;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const TableRow row = table_row(rows[i], static_cast<int>(i));
      predictions.push_back(estimates::predict_run(row.id, published_run(row)));
    }
  }
  py::list out;
  for (const estimates::Prediction& each : predictions) out.append(prediction_of(each));
  return out;
}

py::list names(const std::string& kind) {
  py::list out;
  for (const KnownName& each : known_names(kind)) {
    out.append(py::make_tuple(each.name, each.about));
  }
  return out;
}

}  // namespace

void bind_planning(py::module_& module) {
  module.def(
      "layouts",
      [](const LoadedScenario& scenario, std::size_t top) {
        return ranked({scenario, {}, nullptr}, top);
      },
      py::arg("scenario"), py::arg("top"));
  module.def("layouts_asked", &layouts_asked, py::arg("said"), py::arg("gpus"),
             py::arg("sequence_length"), py::arg("global_batch"), py::arg("tokens_per_batch"),
             py::arg("overrides"), py::arg("top"));
  module.def("predict", &predict, py::arg("rows"));
  module.def("names", &names, py::arg("kind"));
  module.def("kinds_of_names", &kinds_of_names);
}

}  // namespace orrery::python
