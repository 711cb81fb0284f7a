#include <pybind11/stl.h>

#include "core/schema/json.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/choose.hpp"
#include "python/bindings/bindings.hpp"
#include "traces/scenario.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

using Overrides = std::vector<std::string>;

void set_policy(LoadedScenario& loaded, const std::string& name,
                const std::map<std::string, std::string>& parameters) {
  choose_policy(loaded.scenario, name);
  for (const auto& [key, value] : parameters) {
    set_field(loaded.scenario, "policies[0].parameters." + key, value, "policy");
  }
}

std::uint32_t ranks_of(const LoadedScenario& loaded) {
  const Layout& layout = loaded.scenario.job().layout();
  return layout.tensor() * layout.context() * layout.pipeline() * layout.data();
}

py::list check(const std::string& text, const std::string& file) {
  py::list out;
  for (const Error& problem : check_scenario(text, file)) {
    const SourcePlace place = problem.place().value_or(SourcePlace{file, 1, 1, ""});
    out.append(py::make_tuple(problem.message(), place.file, place.line, place.column));
  }
  return out;
}

}  // namespace

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
      .def("set_policy", &set_policy, py::arg("name"), py::arg("parameters"))
      .def("set_ranks", &set_ranks, py::arg("ranks"))
      .def("hash", [](const LoadedScenario& self) { return scenario_hash(self.scenario); })
      .def("json", [](const LoadedScenario& self) { return to_json(self.scenario).dump(); })
      .def_property_readonly("name", [](const LoadedScenario& s) { return s.scenario.name(); })
      .def_property_readonly("ranks", &ranks_of)
      .def_property_readonly("steps",
                             [](const LoadedScenario& s) { return s.scenario.run().steps(); });
  module.def("check", &check, py::arg("text"), py::arg("file"));
}

}  // namespace orrery::python
