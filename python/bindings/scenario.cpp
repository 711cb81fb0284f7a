#include "python/bindings/scenario.hpp"

#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "core/schema/json.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "policies/run/choose.hpp"
#include "python/bindings/bindings.hpp"
#include "traces/scenario/scenario.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

using Overrides = std::vector<std::string>;

void set_policies(LoadedScenario& loaded,
                  const std::vector<std::pair<std::string, PolicyParameters>>& policies) {
  std::vector<PolicySpec> specs;
  for (const auto& [name, values] : policies) {
    specs.push_back(policy_spec(loaded.scenario, name, values));
  }
  loaded.scenario.mutable_policies()->Assign(specs.begin(), specs.end());
}

std::uint32_t ranks_of(const LoadedScenario& loaded) {
  const Layout& layout = loaded.scenario.job().layout();
  return layout.tensor() * layout.context() * layout.pipeline() * layout.data();
}

py::list check(const std::string& text, const std::string& file) {
  py::list out;
  for (const Error& problem : check_scenario(text, file)) {
    const SourcePlace place = problem.source_place().value_or(SourcePlace{file, 1, 1, ""});
    out.append(py::make_tuple(problem.message(), place.file, place.line, place.column));
  }
  return out;
}

}  // namespace

PolicySpec policy_spec(const Scenario& scenario, const std::string& name,
                       const PolicyParameters& values) {
  Scenario chosen = scenario;
  choose_policy(chosen, name);
  for (const auto& [key, value] : values) {
    set_field(chosen, "policies[0].parameters." + key, value, "policy");
  }
  return chosen.policies(0);
}

void bind_scenario(py::module_& module) {
  py::class_<LoadedScenario>(module, "Scenario", "A scenario, loaded, resolved and checked.")
      .def_static(
          "from_file",
          [](const std::string& path, const Overrides& set) { return load_scenario(path, set); },
          py::arg("path"), py::arg("overrides"))
      .def_static(
          "from_text",
          [](const std::string& text, const std::string& file, const Overrides& set) {
            return parse_scenario(text, file, set);
          },
          py::arg("text"), py::arg("file"), py::arg("overrides"))
      .def("set_policies", &set_policies, py::arg("policies"))
      .def("set_ranks", &set_ranks, py::arg("ranks"))
      .def("hash", [](const LoadedScenario& self) { return scenario_hash(self.scenario); })
      .def("json", [](const LoadedScenario& self) { return to_json(self.scenario).dump(); })
      .def("written", [](const LoadedScenario& s) { return to_yaml_json(s.scenario).dump(); })
      .def_property_readonly("name", [](const LoadedScenario& s) { return s.scenario.name(); })
      .def_property_readonly("ranks", &ranks_of)
      .def_property_readonly("steps",
                             [](const LoadedScenario& s) { return s.scenario.run().steps(); });
  module.def("check", &check, py::arg("text"), py::arg("file"));
}

}  // namespace orrery::python
