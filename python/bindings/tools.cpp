#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl.h>

#include "core/schema/yaml_writer.hpp"
#include "policies/record/past.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/python_policy.hpp"
#include "python/bindings/scenario.hpp"
#include "sim/job_replay.hpp"
#include "traces/job_trace.hpp"
#include "traces/report.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

ReplayResult replay(const std::string& log, const std::vector<std::string>& overrides,
                    const py::object& policies) {
  Raised raised;
  if (policies.is_none()) {
    return without_gil(raised, [&] { return replay_log(log, overrides); });
  }
  const auto stack = stack_of(policies, raised, [](const auto& name, const auto& values) {
    return policy_spec(Scenario(), name, values);
  });
  return without_gil(raised, [&] { return replay_log(log, *stack); });
}

/// As reports show them: "Mine + fifo".
std::string names_of(const py::list& policies) {
  std::vector<std::string> names;
  for (const py::handle each : policies) {
    const bool named = py::isinstance<py::tuple>(each);
    names.push_back(py::str(named ? py::object(each[py::int_(0)])
                                  : py::object(py::type::of(each).attr("__name__"))));
  }
  return fmt::format("{}", fmt::join(names, " + "));
}

/// Of a job-level replay: its placement is the replay's.
PolicySpec placing_spec(JobReplay replay, const std::string& name, const PolicyParameters& values) {
  replay.set_policy(policy_spec(Scenario(), name, {}).name());
  Scenario scenario;
  *scenario.add_policies() = policy_of(replay);
  return policy_spec(scenario, name, values);
}

std::string jobs(const std::string& trace, const std::string& record, std::uint32_t nodes,
                 std::uint32_t gpus_per_node, const py::object& policy,
                 const std::string& placement) {
  JobReplay replay;
  replay.set_trace(trace);
  replay.set_nodes(nodes);
  replay.set_gpus_per_node(gpus_per_node);
  replay.set_placement(placement);
  Raised raised;
  if (py::isinstance<py::str>(policy)) {
    replay.set_policy(policy.cast<std::string>());
    return without_gil(raised, [&] {
      return report_json(replay_jobs(load_job_trace(trace), replay, record), false);
    });
  }
  const auto stack = stack_of(policy, raised, [&](const auto& name, const auto& values) {
    return placing_spec(replay, name, values);
  });
  replay.set_policy(names_of(policy));
  return without_gil(raised, [&] {
    return report_json(replay_jobs(load_job_trace(trace), replay, *stack, record), false);
  });
}

}  // namespace

void bind_tools(py::module_& module) {
  py::class_<ReplayResult>(module, "RawReplay", "What a replay found.")
      .def_readonly("calls", &ReplayResult::calls)
      .def_readonly("decisions", &ReplayResult::decisions)
      .def_readonly("decision_trace_sha256", &ReplayResult::decision_trace_sha256)
      .def_readonly("first_difference", &ReplayResult::first_difference);
  module.def("replay", &replay, py::arg("log"), py::arg("overrides"), py::arg("policies"));
  module.def("jobs", &jobs, py::arg("trace"), py::arg("record"), py::arg("nodes"),
             py::arg("gpus_per_node"), py::arg("policy"), py::arg("placement"));
  module.def("policy_names", &policy_names);
  module.def(
      "log_scenario",
      [](const std::string& log) { return to_yaml_json(log_header(log).scenario()).dump(1); },
      py::arg("log"));
  module.def(
      "log_end", [](const std::string& log) { return to_seconds(log_end(log)); }, py::arg("log"));
}

}  // namespace orrery::python
