#include <memory>

#include <pybind11/stl.h>

#include "core/process.hpp"
#include "policies/worker.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/python_policy.hpp"
#include "traces/report.hpp"
#include "traces/scenario.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

struct RunSettings {
  std::string program, detail, record, timeline, mode, fabric;
};

RunRequest request_of(const LoadedScenario& loaded, const RunSettings& settings) {
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  request.set_full_detail(settings.detail == "full");
  request.set_record(settings.record);
  request.set_timeline(settings.timeline);
  request.set_mode(settings.mode);
  request.set_fabric(settings.fabric);
  return request;
}

/// True ends the run: Ctrl-C, an exception already raised, or `cancelled()` saying so.
bool wants_end(Raised& raised, const py::object& cancelled) {
  const py::gil_scoped_acquire gil;
  if (raised.exception) return true;
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return !cancelled.is_none() && cancelled().cast<bool>();
  } catch (py::error_already_set& error) {
    raised.exception.emplace(error);
    return true;
  }
}

void tell(Raised& raised, const py::object& listener, const Progress& progress) {
  const py::gil_scoped_acquire gil;
  if (listener.is_none() || raised.exception) return;
  try {
    listener(progress.steps_done(), progress.steps(), progress.elapsed_s());
  } catch (py::error_already_set& error) {
    raised.exception.emplace(error);
  }
}

Report run(const LoadedScenario& loaded, const RunSettings& settings, const py::object& policy,
           const py::object& progress, const py::object& cancelled) {
  Raised raised;
  std::unique_ptr<PythonPolicy> adapter;
  if (!policy.is_none()) adapter = std::make_unique<PythonPolicy>(policy, raised);
  const RunRequest request = request_of(loaded, settings);
  try {
    const py::gil_scoped_release waiting;
    return run_in_worker(
        sibling_program(settings.program), request, adapter.get(),
        [&](const Progress& now) { tell(raised, progress, now); },
        [&] { return wants_end(raised, cancelled); });
  } catch (const Error&) {
    if (raised.exception) throw py::error_already_set(*raised.exception);
    throw;
  }
}

py::bytes as_bytes(const google::protobuf::RepeatedField<double>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          static_cast<std::size_t>(values.size()) * sizeof(double)};
}

}  // namespace

void bind_run(py::module_& module) {
  py::class_<Report>(module, "RawReport", "The result of one run.")
      .def("json", [](const Report& self) { return report_json(self); })
      .def("summary", [](const Report& self) { return report_summary(self); })
      .def("step_times", [](const Report& self) { return as_bytes(self.step_times_s()); })
      .def("losses", [](const Report& self) { return as_bytes(self.losses()); });
  module.def(
      "run",
      [](const LoadedScenario& scenario, std::string program, std::string detail,
         std::string record, std::string timeline, std::string mode, std::string fabric,
         const py::object& policy, const py::object& progress, const py::object& cancelled) {
        const RunSettings settings{std::move(program),  std::move(detail), std::move(record),
                                   std::move(timeline), std::move(mode),   std::move(fabric)};
        return run(scenario, settings, policy, progress, cancelled);
      },
      py::arg("scenario"), py::arg("program"), py::arg("detail"), py::arg("record"),
      py::arg("timeline"), py::arg("mode"), py::arg("fabric"), py::arg("policy"),
      py::arg("progress"), py::arg("cancelled"));
}

}  // namespace orrery::python
