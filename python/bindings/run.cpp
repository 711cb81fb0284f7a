#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "core/process.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/run/outside_policies.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/python_policy.hpp"
#include "python/bindings/records.hpp"
#include "python/bindings/scenario.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/detail.hpp"
#include "traces/scenario/scenario.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

struct RunSettings {
  std::string program, detail, record, timeline, mode, fabric, kill_switch;
  std::uint32_t limit = 0;    ///< decisions an hour; 0: no limit
  double policy_timeout = 0;  ///< seconds for a call of the policies; 0: no limit
  bool falls_back = false;    ///< the run continues without policies that fail
  std::string from;           ///< log that the run goes on from, or empty
  std::optional<double> from_until_s;
};

RunSettings settings_of(const py::dict& given) {
  const auto text = [&given](const char* name) { return given[name].cast<std::string>(); };
  const bool goes_on = given.contains("from") && !given["from"].is_none();
  using LogUntil = std::pair<std::string, std::optional<double>>;
  const LogUntil from = goes_on ? given["from"].cast<LogUntil>() : LogUntil();
  return {.program = text("program"),
          .detail = text("detail"),
          .record = text("record"),
          .timeline = text("timeline"),
          .mode = text("mode"),
          .fabric = text("fabric"),
          .kill_switch = text("kill_switch"),
          .limit = given["limit"].cast<std::uint32_t>(),
          .policy_timeout = given["policy_timeout"].cast<double>(),
          .falls_back = given["fall_back"].cast<bool>(),
          .from = from.first,
          .from_until_s = from.second};
}

RunRequest request_of(const LoadedScenario& loaded, const RunSettings& settings) {
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  request.set_folder(std::filesystem::path(loaded.places.file()).parent_path().string());
  request.set_full_detail(named<Detail>(settings.detail) == Detail::full);
  request.set_record(settings.record);
  request.set_timeline(settings.timeline);
  request.set_mode(settings.mode);
  request.set_fabric(settings.fabric);
  request.set_policy_timeout(to_nanos(settings.policy_timeout));
  if (!settings.fabric.empty()) {  // limits of the policies' decisions
    request.mutable_scenario()->mutable_live()->set_fabric(settings.fabric);
  }
  if (!settings.from.empty()) request.mutable_from()->set_path(settings.from);
  if (settings.from_until_s) request.mutable_from()->set_until(to_nanos(*settings.from_until_s));
  const bool handed_over = hand_over_mode(settings.mode) != HandOverMode::drive;
  if (handed_over || settings.limit > 0 || !settings.kill_switch.empty() || settings.falls_back) {
    request.mutable_hand_over()->set_fall_back(settings.falls_back);
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

  void request_approval(const ApprovalAsk& question) override {
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
  bool is_halted() override { return false; }

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

/// Returns the policies, of which the built-in ones have the scenario's parameters. GIL held.
std::unique_ptr<PolicyStack> stack_in(const LoadedScenario& loaded, const py::list& policies,
                                      Raised& raised) {
  return stack_of(policies, raised, [&](const std::string& name, const PolicyParameters& values) {
    return policy_spec(loaded.scenario, name, values);
  });
}

/// Returns a function that returns the stack, at its only call.
StackMaker once(std::unique_ptr<PolicyStack> stack) {
  const auto held = std::make_shared<std::unique_ptr<PolicyStack>>(std::move(stack));
  return [held] { return std::move(*held); };
}

/// `server`: None, or one of the settings' program.
Report run(const LoadedScenario& loaded, const RunSettings& settings, const py::object& policies,
           const py::object& hook, const py::object& progress, const py::object& cancelled,
           const py::object& server) {
  Raised raised{.exception = {}, .falls_back = settings.falls_back};
  RunRequest request = request_of(loaded, settings);
  std::unique_ptr<Policy> own;
  if (!policies.is_none()) {
    for (const std::string& name : listed_names(policies)) request.add_policy_outside_names(name);
    auto stack = stack_in(loaded, policies, raised);
    own = request.has_from() ? outside_succession(request, {.make = once(std::move(stack))})
                             : std::unique_ptr<Policy>(std::move(stack));
  }
  std::optional<HookOperator> operated;
  if (!hook.is_none()) operated.emplace(hook, raised);
  auto* const forks = server.is_none() ? nullptr : server.cast<ForkServer*>();
  const ProgressSink told = [&](const Progress& now) { tell(raised, progress, now); };
  const auto interrupted = [&] { return wants_end(raised, cancelled); };
  Operator* const answers = operated ? &*operated : nullptr;
  return without_gil(raised, [&] {
    if (forks != nullptr) {
      return run_in_worker(*forks, request, own.get(), told, interrupted, answers);
    }
    return run_in_worker(sibling_program(settings.program), request, own.get(), told, interrupted,
                         answers);
  });
}

/// `outside`: policies of the choice, if it has any, decide in this process.
FutureChoice choice_of(const LoadedScenario& loaded, const py::handle& said, bool outside) {
  FutureChoice choice;
  const auto [policies, actions] = said.cast<std::pair<py::list, py::list>>();
  choice.set_outside(outside && !policies.empty());
  for (const py::handle each : choice.outside() ? py::list() : policies) {
    const auto [name, values] = each.cast<std::pair<std::string, PolicyParameters>>();
    *choice.add_policies() = policy_spec(loaded.scenario, name, values);
  }
  for (const py::handle action : actions) {
    DecisionRecord& decision = *choice.add_decisions();
    if (!choose_in_python(action, "what", decision)) {
      throw py::type_error("a future begins with actions, not " + std::string(py::repr(action)));
    }
    decision.set_why("given to this future");
  }
  return choice;
}

/// Policies of futures of which some decide in this process.
class OwnFutures {
 public:
  /// `own`: policies of the run; None: the scenario's. `choices`: as futures() gets them. Both
  /// outlive this object.
  OwnFutures(const LoadedScenario& loaded, const py::object& own, const py::list& choices)
      : loaded_(loaded), own_(own), choices_(choices) {}

  /// Returns true if the policies of the choice, or those of the run, are objects.
  bool is_outside(const py::handle& said) const {
    return !own_.is_none() || has_objects(said.cast<std::pair<py::list, py::list>>().first);
  }
  /// Returns the policies of a future; see FuturePolicies. Called without the GIL.
  std::unique_ptr<Policy> make(RunRequest& request, std::optional<int> choice) {
    const bool changes = choice && request.futures().choices(*choice).outside();
    if (own_.is_none() && !changes) return nullptr;
    const py::gil_scoped_acquire gil;
    Raised& raised = raised_.emplace_back();
    const Scenario& scenario = request.scenario();
    StackMaker own = [scenario] { return make_stack(scenario, SourceMap{}); };
    if (!own_.is_none()) {
      for (const std::string& name : listed_names(own_)) request.add_policy_outside_names(name);
      own = once(stack_in(loaded_, own_, raised));
    }
    StackMaker heirs;
    if (changes) {
      const py::list policies =
          choices_[static_cast<std::size_t>(*choice)].cast<std::pair<py::list, py::list>>().first;
      heirs = once(stack_in(loaded_, policies, raised));
    }
    return outside_succession(
        request, {.make = std::move(own), .replace_scenario = !own_.is_none()}, std::move(heirs));
  }

 private:
  static bool has_objects(const py::list& policies) {
    return std::any_of(policies.begin(), policies.end(),
                       [](const py::handle& each) { return !py::isinstance<py::tuple>(each); });
  }

  const LoadedScenario& loaded_;
  const py::object& own_;
  const py::list& choices_;
  std::deque<Raised> raised_;  ///< exceptions of each future, which are the failure of the future
};

/// `first`: number of the first future, of which each is then simulated from its beginning;
/// nothing: 0. Returns the report up to the instant, and of each future its number, its choice, its
/// report or the reason of its absence, and its metrics.
py::tuple futures(const LoadedScenario& loaded, const RunSettings& settings,
                  const FuturesOrder& times, double until_s, const py::list& choices,
                  const py::object& policies, const py::object& progress,
                  std::optional<std::uint32_t> first) {
  RunRequest request = request_of(loaded, settings);
  request.set_until(to_nanos(until_s));
  *request.mutable_futures() = times;
  OwnFutures own(loaded, policies, choices);
  bool outside = !policies.is_none();
  for (const py::handle said : choices) {
    outside = outside || own.is_outside(said);
    *request.mutable_futures()->add_choices() = choice_of(loaded, said, own.is_outside(said));
  }
  Raised raised;
  const py::none uncancelled;
  const ProgressSink told = [&](const Progress& now) { tell(raised, progress, now); };
  const auto interrupted = [&] { return wants_end(raised, uncancelled); };
  const FuturesReport all = without_gil(raised, [&] {
    const std::string program = sibling_program("orrery-sim");
    if (!outside && !first) return run_futures(program, request, told, interrupted);
    return run_outside_futures(
        program, request,
        [&own](RunRequest& one, std::optional<int> choice) { return own.make(one, choice); }, told,
        interrupted, first.value_or(0));
  });
  const auto known = [](bool has, auto value) {
    return has ? py::object(py::cast(value)) : py::object(py::none());
  };
  py::list ends;
  for (const FutureEnd& end : all.futures()) {
    ends.append(py::make_tuple(
        end.future(), end.choice(),
        end.has_report() ? py::cast(end.report()) : py::object(py::none()),
        end.has_failure() ? py::object(text_of_bytes(end.failure().message()))
                          : py::object(py::none()),
        known(end.has_steps_ahead(), end.steps_ahead()),
        known(end.has_goodput_ahead(), end.goodput_ahead()), known(end.has_end_s(), end.end_s())));
  }
  return py::make_tuple(all.begun(), ends);
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
      .def("losses", [](const Report& self) { return as_bytes(self.losses()); })
      // Results of runs in processes of an executor.
      .def(py::pickle([](const Report& self) { return py::bytes(self.SerializeAsString()); },
                      [](const py::bytes& stored) {
                        Report report;
                        ensure(report.ParseFromString(std::string(stored)), "a stored report");
                        return report;
                      }));
  py::class_<ForkServer>(module, "ForkServer",
                         "A program that has been started once, for many runs. It and its runs end "
                         "with the thread that made it.")
      .def(py::init([](const std::string& program) {
             return std::make_unique<ForkServer>(sibling_program(program));
           }),
           py::arg("program"));
  module.def(
      "run",
      [](const LoadedScenario& scenario, const py::dict& settings, const py::object& policies,
         const py::object& hook, const py::object& progress, const py::object& cancelled,
         const py::object& server) {
        return run(scenario, settings_of(settings), policies, hook, progress, cancelled, server);
      },
      py::arg("scenario"), py::arg("settings"), py::arg("policies"), py::arg("hook"),
      py::arg("progress"), py::arg("cancelled"), py::arg("server") = py::none());
  module.def(
      "futures",
      [](const LoadedScenario& scenario, const py::dict& settings, std::uint32_t count, double at_s,
         double until_s, std::uint32_t at_once, const py::list& choices, const py::object& policies,
         const py::object& progress, std::optional<std::uint32_t> first) {
        FuturesOrder order;
        order.set_count(count);
        order.set_at(to_nanos(at_s));
        order.set_at_once(at_once);
        return futures(scenario, settings_of(settings), order, until_s, choices, policies, progress,
                       first);
      },
      py::arg("scenario"), py::arg("settings"), py::arg("count"), py::arg("at_s"),
      py::arg("until_s"), py::arg("at_once"), py::arg("choices"), py::arg("policies"),
      py::arg("progress"), py::arg("first") = py::none());
}

}  // namespace orrery::python
