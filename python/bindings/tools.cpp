#include <pybind11/stl.h>

#include "policies/recorder.hpp"
#include "policies/registry.hpp"
#include "python/bindings/bindings.hpp"
#include "sim/job_replay.hpp"
#include "traces/job_trace.hpp"
#include "traces/report.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

ReplayResult replay(const std::string& log, const std::vector<std::string>& overrides) {
  const py::gil_scoped_release computing;
  return replay_log(log, overrides);
}

std::string jobs(const std::string& trace, std::uint32_t nodes, std::uint32_t gpus_per_node,
                 const std::string& policy, const std::string& placement) {
  const py::gil_scoped_release computing;
  JobReplay replay;
  replay.set_trace(trace);
  replay.set_nodes(nodes);
  replay.set_gpus_per_node(gpus_per_node);
  replay.set_policy(policy);
  replay.set_placement(placement);
  return report_json(replay_jobs(load_job_trace(trace), replay), false);
}

}  // namespace

void bind_tools(py::module_& module) {
  py::class_<ReplayResult>(module, "RawReplay", "What a replay found.")
      .def_readonly("calls", &ReplayResult::calls)
      .def_readonly("decisions", &ReplayResult::decisions)
      .def_readonly("decision_trace_sha256", &ReplayResult::decision_trace_sha256)
      .def_readonly("first_difference", &ReplayResult::first_difference);
  module.def("replay", &replay, py::arg("log"), py::arg("overrides"));
  module.def("jobs", &jobs, py::arg("trace"), py::arg("nodes"), py::arg("gpus_per_node"),
             py::arg("policy"), py::arg("placement"));
  module.def("policy_names", &policy_names);
}

}  // namespace orrery::python
