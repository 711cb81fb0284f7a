// orrery simulate: runs a scenario in the simulator.
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/from_log.hpp"
#include "cli/shared/futures.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/machine.hpp"
#include "cli/shared/operator.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/print_report.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/step_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "core/units.hpp"
#include "sim/estimates/predict/collective_interval.hpp"
#include "sim/estimates/predict/interval.hpp"
#include "sim/estimates/prices/measured_kernels.hpp"
#include "topologies/builder.hpp"
#include "topologies/machine.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/detail.hpp"
#include "traces/workload/own_stack.hpp"

namespace orrery::cli {
namespace {

struct SimulateOptions : RunOptions {
  std::string detail = "folded";
  std::string timeline;
  std::string machine;
  std::string stack;    ///< name, or file of orrery calibrate --runs
  std::string kernels;  ///< file of orrery calibrate --kernels
  bool measured_only = false;
  OperatorOptions operation;
  FuturesOptions futures;
  std::string from;                   ///< LOG[@TIME], or empty
  std::vector<std::string> policies;  ///< values of --policy

  /// Adds the overrides of --stack.
  void use_stack() {
    if (stack.empty()) return;
    if (!names_own_stack(stack)) {
      own.push_back("job.stack=" + stack);
      return;
    }
    const SoftwareStack fitted = load_own_stack(stack);
    own.push_back("job.stack=" + fitted.kin());
    own.push_back("job.software=" + to_yaml_json(fitted).dump());
  }
  LoadedScenario load_from(const std::optional<FromLog>& log) const {
    return log && file.empty() ? log->load(all_overrides()) : load();
  }
};

/// Returns the collective of a scenario on a cluster.
estimates::CollectiveCall call_of(const Collective& collective, const Cluster& cluster) {
  return {.kind = named<CollectiveKind>(collective.kind()),
          .algorithm = named(collective.algorithm(), std::optional(CollectiveAlgorithm::automatic)),
          .ranks = collective.has_ranks() ? collective.ranks() : cluster.gpus(),
          .size = {collective.size()}};
}

/// Returns true if the kernels of the job are priced by the catalogue: the job is a model by preset
/// or by its dimensions, without a declared pace.
bool is_priced(const Scenario& scenario) {
  const Job& job = scenario.job();
  return scenario.has_job() && !job.has_program() && !job.has_pace() &&
         job.model().builtin().empty();
}

/// Prices the job by the node's own measurements in the file. Throws bad_input if the scenario's
/// work has no priced kernels or its GPU is another.
void use_kernels(const std::string& file, RunRequest& request, const SourceMap& places) {
  if (!is_priced(request.scenario())) {
    throw Error(ErrorKind::bad_input,
                "--kernels: expected a scenario whose job is a model by preset or by its "
                "dimensions; other work has no priced kernels");
  }
  *request.mutable_kernels() = estimates::load_kernel_measurements(file);
  estimates::MeasuredKernels(request.kernels())
      .check_gpu(build_cluster(request.scenario().cluster(), places, "cluster").gpu_model());
}

/// Returns the interval of measured times around a step of `step_s` seconds; nothing if no fitted
/// price is behind the time: declared or recorded work, a measured machine, line rates.
std::optional<estimates::Interval> step_interval(const RunRequest& request, double step_s,
                                                 const SourceMap& places) {
  const Scenario& scenario = request.scenario();
  const Job& job = scenario.job();
  const bool alone = scenario.has_collective() && !request.has_machine();
  const bool priced = is_priced(scenario) && !request.has_machine();
  if (!alone && !priced) return std::nullopt;
  const Cluster cluster = build_cluster(scenario.cluster(), places, "cluster");
  if (cluster.shape().line_rate) return std::nullopt;
  if (priced) return estimates::interval_of(step_s, job, true, cluster.gpu_model());
  const estimates::CollectiveCall call = call_of(scenario.collective(), cluster);
  if (call.ranks < 2 || call.ranks > cluster.gpus()) return std::nullopt;
  return estimates::collective_interval(cluster, call, step_s);
}

/// Throws environment if --measured-only refuses the run: a fitted price that is transferred.
void refuse_transferred(const RunRequest& request, const SourceMap& places) {
  const auto interval = step_interval(request, 1, places);
  if (!interval) return;
  const std::string refusal =
      estimates::transfer_refusal(interval->state, "rests on: " + interval->distance);
  if (!refusal.empty()) throw Error(ErrorKind::environment, refusal);
}

/// Returns the summary of the report, or its JSON object, with the interval.
std::string with_interval(const Report& report, const estimates::Interval& interval, bool as_json) {
  if (!as_json) {
    return report_summary(report) + fmt::format("{:<14}{} to {}, rests on: {}; {}\n", "80% of runs",
                                                format_quantity(interval.p10_s, Dimension::time),
                                                format_quantity(interval.p90_s, Dimension::time),
                                                interval.distance, name_of(interval.state));
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(report_json(report));
  json["step_interval"] = {{"p10_s", interval.p10_s},       {"p90_s", interval.p90_s},
                           {"p2_5_s", interval.p2_5_s},     {"p97_5_s", interval.p97_5_s},
                           {"rests_on", interval.distance}, {"state", name_of(interval.state)}};
  return json.dump(2) + "\n";
}

int simulate(SimulateOptions options) {
  options.use_stack();
  RunRequest request;
  if (options.file.empty() && options.from.empty()) {
    throw Error(ErrorKind::usage, "FILE is required, or --from LOG, whose scenario is then run");
  }
  std::optional<FromLog> log;
  if (!options.from.empty()) log = from_log(options.from);
  const LoadedScenario loaded = options.load_from(log);
  if (log) *request.mutable_from() = log->order;
  *request.mutable_scenario() = loaded.scenario;
  request.set_folder(std::filesystem::path(options.file).parent_path().string());
  request.set_full_detail(named<Detail>(options.detail) == Detail::full);
  request.set_record(options.record);
  request.set_timeline(options.timeline);
  const bool futures = options.futures.has_futures();
  const auto policy = futures && has_outside_policy(options.policies)
                          ? nullptr  // each future has its own
                          : choose_policies(options.policies, request);
  if (!options.machine.empty()) use_machine(request, load_machine(options.machine));
  if (!options.kernels.empty()) use_kernels(options.kernels, request, loaded.places);
  if (options.measured_only) refuse_transferred(request, loaded.places);
  options.operation.fill(request, true);
  options.futures.fill(request, log ? std::optional(log->at) : std::nullopt);
  if (futures) {
    const FuturePolicies policies =
        choose_future_policies(options.policies, options.futures.policies, request);
    return show_futures(options.futures, request, policies, loaded.places, options.json);
  }
  const auto operated = options.operation.make_operator(true);
  const Report report =
      run(Worker::sim, request, loaded.places, operated.get(), nullptr, policy.get());
  const auto interval = report.has_step_time_s()
                            ? step_interval(request, report.step_time_s(), loaded.places)
                            : std::nullopt;
  if (!interval) return print_report(report, options.json);
  return print_report(report, options.json, with_interval(report, *interval, options.json));
}

}  // namespace

void add_simulate(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand("simulate", "run a scenario in the simulator");
  or_example(*command->add_option("FILE", options->file,
                                  "scenario (YAML), or the name of a shipped example; with --from "
                                  "the default is the log's"));
  options->add_json(*command);
  options->add_seed(*command);
  add_policy_option(*command, options->policies);
  one_of(*command->add_option("--detail", options->detail,
                              "full: simulate every rank and every step; folded: simulate equal "
                              "ranks and equal steps once"),
         all_names<Detail>())
      .capture_default_str();
  CLI::Option* machine =
      command
          ->add_option("--machine", options->machine,
                       "profile of `orrery calibrate` in place of the scenario's cluster")
          ->type_name("PROFILE.yaml");
  declare_kernels(options->kernels, *command)->excludes(machine);
  command
      ->add_option("--stack", options->stack,
                   "software stack in place of the scenario's (orrery list stacks), or a file of "
                   "orrery calibrate --runs")
      ->type_name("NAME|FILE");
  command->add_flag("--measured-only", options->measured_only,
                    "refuse a run whose combination of GPU and software has no fitted "
                    "measurements (exit code 4)");
  command
      ->add_option("--timeline", options->timeline,
                   "write a Perfetto trace (protobuf) for https://ui.perfetto.dev")
      ->type_name("OUT.pftrace");
  options->operation.add(*command, "stop", 0);
  command
      ->add_option("--from", options->from,
                   "continue from a log of --record, up to an instant of it")
      ->type_name("LOG[@TIME]");
  options->futures.add(*command);
  options->add_record(*command);
  options->add_overrides(*command);
  add_examples(*command, {"orrery simulate examples/llama3-70b-512-h100.yaml",
                          "orrery simulate train.yaml --set cluster.nodes=128 --json",
                          "orrery simulate train.yaml --policy mine.py --policy recover",
                          "orrery simulate train.yaml --futures 100 --at 1h --for 1h "
                          "--policies static,predictive-rebalance",
                          "orrery simulate --from live.log@90s --futures 100 --for 1h",
                          "orrery simulate train.yaml --detail full --timeline train.pftrace"});
  command->callback([options, &chosen] { chosen = [options] { return simulate(*options); }; });
}

}  // namespace orrery::cli
