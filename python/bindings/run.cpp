#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "core/process.hpp"
#include "policies/run/worker.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/python_policy.hpp"
#include "python/bindings/records.hpp"
#include "python/bindings/scenario.hpp"
#include "traces/report.hpp"
#include "traces/scenario.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

struct RunSettings {
  std::string program, detail, record, timeline, mode, fabric, kill_switch;
  std::uint32_t limit = 0;  ///< decisions an hour; 0: no limit
};

RunSettings settings_of(const py::dict& given) {
  const auto text = [&given](const char* name) { return given[name].cast<std::string>(); };
  return {.program = text("program"),
          .detail = text("detail"),
          .record = text("record"),
          .timeline = text("timeline"),
          .mode = text("mode"),
          .fabric = text("fabric"),
          .kill_switch = text("kill_switch"),
          .limit = given["limit"].cast<std::uint32_t>()};
}

RunRequest request_of(const LoadedScenario& loaded, const RunSettings& settings) {
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  request.set_folder(std::filesystem::path(loaded.places.file()).parent_path().string());
  request.set_full_detail(settings.detail == "full");
  request.set_record(settings.record);
  request.set_timeline(settings.timeline);
  request.set_mode(settings.mode);
  request.set_fabric(settings.fabric);
  if (!settings.fabric.empty()) {  // what policies' decisions are held against
    request.mutable_scenario()->mutable_live()->set_fabric(settings.fabric);
  }
  const bool handed_over = !settings.mode.empty() && settings.mode != "drive";
  if (handed_over || settings.limit > 0 || !settings.kill_switch.empty()) {
    request.mutable_hand_over()->set_decisions_per_hour(settings.limit);
    request.mutable_hand_over()->set_kill_switch(settings.kill_switch);
  }
  return request;
}

/// Answers the questions of mode approve by a function of Python: true is a yes, a text a no for
/// that reason.
class HookOperator : public Operator {
 public:
  HookOperator(const py::object& hook, Raised& raised) : hook_(hook), raised_(raised) {}

  void ask(const ApprovalAsk& question) override {
    const py::gil_scoped_acquire gil;
    ApprovalVerdict verdict;
    verdict.set_decision(question.decision());
    try {
      const py::object action = to_python(chosen(question.record()));
      const py::object said =
          hook_(action, text_of_bytes(question.why()), to_seconds(question.now()));
      const bool text = py::isinstance<py::str>(said);
      verdict.set_accepted(!text && said.cast<bool>());
      verdict.set_reason(text ? utf8(said, "hook") : "the hook said no");
    } catch (py::error_already_set& error) {
      if (!raised_.exception) raised_.exception.emplace(error);
      verdict.set_reason("the hook raised an exception");
    }
    verdicts_.push_back(std::move(verdict));
  }
  std::vector<ApprovalVerdict> verdicts() override { return std::exchange(verdicts_, {}); }
  bool halted() override { return false; }

 private:
  static const google::protobuf::Message& chosen(const DecisionRecord& record) {
    const auto* oneof = DecisionRecord::descriptor()->FindOneofByName("what");
    const auto& reflection = *record.GetReflection();
    return reflection.GetMessage(record, reflection.GetOneofFieldDescriptor(record, oneof));
  }

  const py::object& hook_;
  Raised& raised_;
  std::vector<ApprovalVerdict> verdicts_;
};

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

Report run(const LoadedScenario& loaded, const RunSettings& settings, const py::object& policies,
           const py::object& hook, const py::object& progress, const py::object& cancelled) {
  Raised raised;
  std::unique_ptr<PolicyStack> own;
  if (!policies.is_none()) {
    own = stack_of(policies, raised, [&](const std::string& name, const PolicyParameters& values) {
      return policy_spec(loaded.scenario, name, values);
    });
  }
  std::optional<HookOperator> operated;
  if (!hook.is_none()) operated.emplace(hook, raised);
  const RunRequest request = request_of(loaded, settings);
  return without_gil(raised, [&] {
    return run_in_worker(
        sibling_program(settings.program), request, own.get(),
        [&](const Progress& now) { tell(raised, progress, now); },
        [&] { return wants_end(raised, cancelled); }, operated ? &*operated : nullptr);
  });
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
      [](const LoadedScenario& scenario, const py::dict& settings, const py::object& policies,
         const py::object& hook, const py::object& progress, const py::object& cancelled) {
        return run(scenario, settings_of(settings), policies, hook, progress, cancelled);
      },
      py::arg("scenario"), py::arg("settings"), py::arg("policies"), py::arg("hook"),
      py::arg("progress"), py::arg("cancelled"));
}

}  // namespace orrery::python
