#include <pybind11/stl.h>

#include "policies/recorder.hpp"
#include "policies/registry.hpp"
#include "python/bindings/bindings.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

ReplayResult replay(const std::string& log, const std::vector<std::string>& overrides) {
  const py::gil_scoped_release computing;
  return replay_log(log, overrides);
}

}  // namespace

void bind_tools(py::module_& module) {
  py::class_<ReplayResult>(module, "RawReplay", "What a replay found.")
      .def_readonly("calls", &ReplayResult::calls)
      .def_readonly("decisions", &ReplayResult::decisions)
      .def_readonly("decision_trace_sha256", &ReplayResult::decision_trace_sha256)
      .def_readonly("first_difference", &ReplayResult::first_difference);
  module.def("replay", &replay, py::arg("log"), py::arg("overrides"));
  module.def("policy_names", &policy_names);
}

}  // namespace orrery::python
