#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "core/schema/json.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "policies/record/past.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/replay.hpp"
#include "policies/run/worker.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/python_policy.hpp"
#include "python/bindings/scenario.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/job_results.hpp"
#include "sim/replay/job_savings.hpp"
#include "sim/replay/replay_change.hpp"
#include "topologies/builder.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/replay_conditions.hpp"

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

/// Returns the policy of a job-level replay: its placement is the replay's.
PolicySpec placing_spec(JobReplay replay, const std::string& name, const PolicyParameters& values) {
  replay.set_policy(policy_spec(Scenario(), name, {}).name());
  Scenario scenario;
  *scenario.add_policies() = policy_of(replay);
  return policy_spec(scenario, name, values);
}

/// A description, with as many nodes as are asked for beside it.
void take_cluster(const std::string& path, JobReplay& replay) {
  Topology& topology = *replay.mutable_cluster();
  resolve(topology, load_yaml_file(path, topology));
  if (replay.nodes() > 0) topology.set_nodes(replay.nodes());
  replay.set_nodes(topology.nodes());
  replay.set_gpus_per_node(topology.node().gpus_per_node());
}

/// Returns the replay that orrery.jobs() asks for, without the policy.
JobReplay replay_of(const py::dict& asked) {
  JobReplay replay;
  replay.set_trace(asked["trace"].cast<std::string>());
  replay.set_nodes(asked["nodes"].cast<std::uint32_t>());
  replay.set_gpus_per_node(asked["gpus_per_node"].cast<std::uint32_t>());
  const auto cluster = asked["cluster"].cast<std::string>();
  if (!cluster.empty()) take_cluster(cluster, replay);
  const auto conditions = asked["conditions"].cast<std::string>();
  if (!conditions.empty()) {
    const SourceMap places = load_yaml(conditions, "conditions", *replay.mutable_conditions());
    complete(*replay.mutable_conditions(), places, "");
  }
  const auto power = asked["power"].cast<std::string>();
  if (!power.empty()) load_yaml(power, "power", *replay.mutable_power());
  replay.set_placement(asked["placement"].cast<std::string>());
  replay.set_estimates(asked["estimates"].cast<std::string>());
  replay.set_estimate_error(asked["estimate_error"].cast<double>());
  replay.set_seed(asked["seed"].cast<std::uint64_t>());
  replay.set_strict(asked["strict"].cast<bool>());
  const auto slices = asked["gpu_slices"].cast<std::uint32_t>();
  if (slices > 0) replay.set_gpu_slices(slices);
  for (const py::handle each : asked["node_kinds"]) {
    const auto [kind, nodes] = each.cast<std::pair<std::string, std::uint32_t>>();
    NodeKind& added = *replay.add_node_kinds();
    added.set_kind(kind);
    added.set_nodes(nodes);
  }
  return replay;
}

/// The report as JSON; jobs, series, groups, the comparison with the log's starts, and the waits
/// beside those of the log as CSV.
using JobsResult = std::array<std::string, 6>;

/// Replay, its policy (null for the one that the replay names), and the same replay without the
/// change that was asked for, if there is one.
struct AskedReplay {
  JobReplay replay;
  Policy* policy = nullptr;
  std::string record = {};
  std::optional<JobReplay> base = {};
};

/// Throws a usage error if the replay is the same without the change.
void check_change(const AskedReplay& asked, const std::vector<TraceJob>& log) {
  if (!asked.base) return;
  JobReplay base = *asked.base, changed = asked.replay;
  sim::settle_slices(base, log);
  sim::settle_slices(changed, log);
  const std::string reason = sim::reason_without_effect(base, changed, sim::log_traits(log));
  if (reason.empty()) return;
  throw Error(ErrorKind::usage,
              fmt::format("what_if: expected a change of the replay, found one without effect: {}",
                          reason));
}

JobsResult run_jobs(const AskedReplay& asked) {
  const JobReplay& replay = asked.replay;
  JobLog log = load_job_log(replay.trace(), {.strict = replay.strict()});
  check_change(asked, log.jobs);
  const sim::ComparedJobs compared(log.jobs);
  const std::uint32_t gpus = replay.nodes() * replay.gpus_per_node();
  const sim::LogOutcome recorded = sim::recorded_outcome(log.jobs, gpus);
  sim::JobTables tables;
  JobsReport report;
  if (speed_of(replay.conditions()) == JobSpeed::simulated) {
    report =
        sim::replay_report(replay,
                           run_in_worker(sibling_program("orrery-sim"),
                                         sim::replay_request(replay, asked.record), asked.policy),
                           &tables);
  } else if (asked.policy != nullptr) {
    report = sim::replay_jobs(std::move(log.jobs), replay, *asked.policy, asked.record, &tables);
  } else {
    report = sim::replay_jobs(std::move(log.jobs), replay, asked.record, &tables);
  }
  report.clear_host();
  *report.mutable_quality() = std::move(log.quality);
  sim::set_recorded(recorded.report, report);
  sim::LogOutcome outcome{.report = std::move(report), .jobs = std::move(tables.outcomes)};
  const auto saved = sim::savings(compared, outcome, recorded, {.gpus = gpus});
  if (saved) *outcome.report.mutable_savings() = saved->savings;
  return {report_json(outcome.report, false), std::move(tables.jobs),
          std::move(tables.series),           sim::groups_csv(outcome.report),
          sim::backtest_csv(tables.backtest), saved ? sim::waits_csv(*saved) : std::string()};
}

/// Returns the name of a policy in reports, for example "Mine + fifo".
std::string shown_name(const py::object& policy) {
  if (py::isinstance<py::str>(policy)) return policy.cast<std::string>();
  return fmt::format("{}", fmt::join(listed_names(policy), " + "));
}

/// `base`: null, or the arguments of the same replay without a change.
JobsResult jobs(const py::dict& asked, const std::string& record, const py::object& policy,
                const py::object& base) {
  AskedReplay run{.replay = replay_of(asked), .record = record};
  if (!base.is_none()) {
    run.base = replay_of(base.cast<py::dict>());
    run.base->set_policy(shown_name(policy));
  }
  Raised raised;
  if (py::isinstance<py::str>(policy)) {
    run.replay.set_policy(policy.cast<std::string>());
    return without_gil(raised, [&] { return run_jobs(run); });
  }
  const auto stack = stack_of(policy, raised, [&](const auto& name, const auto& values) {
    return placing_spec(run.replay, name, values);
  });
  run.replay.set_policy(shown_name(policy));
  run.policy = stack.get();
  return without_gil(raised, [&] { return run_jobs(run); });
}

/// Returns the jobs as CSV, and the quality of the rows as JSON.
std::array<std::string, 2> job_log(const std::string& path, bool strict,
                                   const std::string& throughputs, const std::string& gpu,
                                   const std::string& gpu_kind, bool anonymous,
                                   const std::string& columns) {
  Raised raised;
  return without_gil(raised, [&]() -> std::array<std::string, 2> {
    JobLog log = load_job_log(
        path, {.strict = strict,
               .throughputs = throughputs,
               .gpu = gpu,
               .gpu_kind = gpu_kind,
               .columns = columns});
    if (anonymous) anonymize(log.jobs);
    return {job_trace_csv(log.jobs), to_json(log.quality).dump()};
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
  module.def("jobs", &jobs, py::arg("asked"), py::arg("record"), py::arg("policy"),
             py::arg("base"));
  module.def("job_log", &job_log, py::arg("path"), py::arg("strict"), py::arg("throughputs"),
             py::arg("gpu"), py::arg("gpu_kind"), py::arg("anonymous"), py::arg("columns"));
  module.def("policy_names", &policy_names);
  module.def(
      "log_scenario",
      [](const std::string& log) { return to_yaml_json(log_header(log).scenario()).dump(1); },
      py::arg("log"));
  module.def(
      "log_end", [](const std::string& log) { return to_seconds(log_end(log)); }, py::arg("log"));
}

}  // namespace orrery::python
