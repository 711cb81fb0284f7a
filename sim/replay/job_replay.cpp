#include "sim/replay/job_replay.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/drive.hpp"
#include "sim/replay/recorded_jobs.hpp"
#include "sim/world/sim_backend.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/power_schedule.hpp"

namespace orrery::sim {
namespace {

/// Returns the replay without the kinds of its nodes if no job names a kind.
JobReplay with_kinds(const JobReplay& asked, const std::vector<TraceJob>& jobs) {
  JobReplay replay = asked;
  if (std::all_of(jobs.begin(), jobs.end(),
                  [](const TraceJob& job) { return job.kinds.empty(); })) {
    replay.clear_node_kinds();
  }
  return replay;
}

/// Returns the names of the shipped queue policies with a property of their needs.
std::vector<std::string> policies_with(bool Needs::*property) {
  std::vector<std::string> names = queue_policy_names();
  std::erase_if(names, [property](const std::string& name) {
    return !(make_policy(name, {})->needs().*property);
  });
  return names;
}

/// Throws bad_input if the nodes have several kinds of GPUs, or GPUs have slices, and the policies
/// of the replay do not tell them apart.
void check_needs(const Needs& needs, const JobReplay& replay, const Cluster& cluster) {
  const std::vector<std::string> kinds = cluster.gpu_kinds();
  if (kinds.size() > 1 && !needs.gpu_kinds) {
    throw Error(ErrorKind::bad_input,
                fmt::format("policy '{}': expected a policy that tells kinds of GPUs apart ({}, or "
                            "an own one that declares gpu_kinds in its needs), because the nodes "
                            "have {} kinds ({}) and the jobs name kinds: choose one of these "
                            "policies, replay one kind with --gpu-kind, or give --nodes and "
                            "--gpus-per-node for a cluster of equal GPUs",
                            replay.policy(), fmt::join(policies_with(&Needs::gpu_kinds), ", "),
                            kinds.size(), fmt::join(kinds, ", ")));
  }
  if (cluster.shape().slices_per_gpu > 1 && !needs.gpu_parts) {
    throw Error(ErrorKind::bad_input,
                fmt::format("policy '{}': expected a policy that places parts of GPUs ({}, or an "
                            "own one that declares gpu_parts in its needs), because jobs of the "
                            "log ask for parts: choose one of these policies, or add --set "
                            "gpu_slices=1, which counts a part as a whole GPU",
                            replay.policy(), fmt::join(policies_with(&Needs::gpu_parts), ", ")));
  }
}

[[noreturn]] void refuse_power(const std::string& message) {
  throw Error(ErrorKind::bad_input, "power: " + message);
}

/// Throws bad_input for a budget that the replay cannot keep.
void check_budget(const JobReplay& replay, const Cluster& cluster) {
  if (replay.power().limits().empty()) {
    refuse_power(
        "expected the key 'limits', found none: write limits, such as --set "
        "'power.limits=[{share: 80%, from: 8 h, until: 20 h, every: 24 h}]'");
  }
  if (!replay.has_cluster()) {
    refuse_power(
        "expected a description of the cluster with the power of its GPUs, found only its "
        "size: give --cluster C.yaml, a file such as {preset: dgx-h100, nodes: 64}, or the "
        "key 'cluster' in the file of the replay");
  }
  if (!cluster.shape().kinds.empty()) {
    refuse_power(
        "expected one kind of GPU, found kinds of nodes and jobs that name them: replay "
        "one kind with --gpu-kind");
  }
  if (cluster.shape().slices_per_gpu > 1) {
    refuse_power(
        "expected whole GPUs, found jobs with parts of GPUs, whose power is not known: add "
        "--set gpu_slices=1, which counts a part as a whole GPU");
  }
  if (spending_of(replay.power()) != JobSpending::wait || knows_power_limits(replay.policy())) {
    return;
  }
  std::vector<std::string> knowing = queue_policy_names();
  std::erase_if(knowing, [](const std::string& name) { return !knows_power_limits(name); });
  throw Error(ErrorKind::bad_input,
              fmt::format("power.spend: wait: expected a policy that knows limits of power in "
                          "advance ({}), found '{}': choose one of these, or spend: follow, flat "
                          "or pause",
                          fmt::join(knowing, ", "), replay.policy()));
}

/// Returns the power of a replay; of no cluster, if the figures are not those of all of its GPUs.
SitePower power_of(const JobReplay& replay, const Cluster& cluster) {
  if (replay.has_power()) check_budget(replay, cluster);
  const bool is_uniform = cluster.shape().kinds.empty() && cluster.shape().slices_per_gpu == 1;
  return is_uniform ? SitePower(replay.power(), cluster) : SitePower();
}

/// Backend of a replay that checks the needs of the policies before the run begins, and otherwise
/// forwards to `inner`, which must outlive it.
class CheckedBackend : public Backend {
 public:
  CheckedBackend(Backend& inner, const JobReplay& replay) : inner_(inner), replay_(replay) {}

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override {
    check_needs(needs, replay_, inner_.cluster());
    inner_.begin(needs);
  }
  std::optional<Observation> next() override { return inner_.next(); }
  void apply(const DecisionList& decisions) override { inner_.apply(decisions); }
  DecisionId decided_before() const override { return inner_.decided_before(); }

 private:
  Backend& inner_;
  const JobReplay& replay_;
};

/// Returns the estimates of a replay, with its seed.
EstimateChoice estimates_of(const JobReplay& replay) {
  return estimate_choice(replay, replay_seed(replay));
}

/// Writes the settings of a replay to its result.
void describe(const JobReplay& replay, JobsReport& report) {
  report.set_policy(replay.policy());
  report.set_placement(replay.placement());
  report.set_nodes(replay.nodes());
  report.set_gpus_per_node(replay.gpus_per_node());
  report.set_estimates(std::string(name_of(estimates_of(replay).kind)));
}

/// Fills the tables; reads the row of each job once for the table of jobs and the backtest.
void write_tables(const RecordedJobs& recorded, const JobsReport& report, JobTables& tables) {
  tables.outcomes = recorded.outcomes();
  if (!tables.has_texts) return;
  RecordedUse use(report.nodes() * report.gpus_per_node());
  for (std::size_t i = 0; i < recorded.rows(); ++i) use.add(*recorded.row(i).job);
  Backtest backtest(use);
  tables.jobs = jobs_header();
  for (std::size_t i = 0; i < recorded.rows(); ++i) {
    const JobRow row = recorded.row(i);
    write_row(row, tables.jobs);
    backtest.add(row);
  }
  tables.series = series_csv(recorded.load(), report.nodes() * report.gpus_per_node());
  tables.backtest = backtest.rows();
}

}  // namespace

std::uint64_t replay_seed(const JobReplay& replay) { return replay.has_seed() ? replay.seed() : 1; }

void settle_slices(JobReplay& replay, const std::vector<TraceJob>& jobs) {
  const std::uint32_t needed = slices_for_parts(jobs);
  if (!replay.has_gpu_slices()) {
    if (needed > 1) replay.set_gpu_slices(needed);
    return;
  }
  if (needed > 1) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("gpu_slices: expected a log with parts of GPUs (num_gpus below 1), found "
                          "whole GPUs only in {}: leave the key out",
                          replay.trace()));
}

void count_parts_whole(JobReplay& replay, const std::vector<TraceJob>& jobs) {
  if (slices_for_parts(jobs) > 1 && !replay.has_gpu_slices()) replay.set_gpu_slices(1);
}

RunConditions run_conditions(const ReplayConditions& asked, const Cluster& cluster,
                             std::uint64_t seed) {
  constexpr Nanos kHour = 3600 * kNanosPerSecond;
  RunConditions conditions{.restart_cost = asked.restart_cost(),
                           .enforce_limits = asked.enforce_limits()};
  if (asked.has_checkpoint_every()) conditions.checkpoint_every = asked.checkpoint_every();
  std::vector<Outage> outages;
  if (!asked.outages().empty()) outages = load_outages(asked.outages(), cluster.nodes());
  conditions.outages = NodeOutages(outages,
                                   {.per_thousand_node_days = asked.failures(),
                                    .repair = asked.has_repair() ? asked.repair() : kHour,
                                    .seed = seed},
                                   cluster.nodes());
  return conditions;
}

void check_power(const JobReplay& replay) {
  const Cluster cluster = cluster_of(replay);
  power_of(replay, cluster);
}

RunRequest replay_request(const JobReplay& replay, const std::string& record_path) {
  if (!replay.has_cluster()) {
    throw Error(ErrorKind::bad_input,
                "expected a description of the cluster for simulated speed, found only its size: "
                "give --cluster C.yaml, or the key 'cluster' in the file of the replay");
  }
  if (replay.node_kinds_size() > 0) {
    throw Error(ErrorKind::bad_input,
                "node_kinds: expected jobs of recorded speed, got simulated speed, which knows one "
                "kind of GPU: leave the kinds of the nodes out");
  }
  if (replay.gpu_slices() > 1) {
    throw Error(ErrorKind::bad_input,
                "gpu_slices: expected jobs of recorded speed, got simulated speed, in which a part "
                "of a GPU counts as a whole one: leave the key out");
  }
  if (replay.has_power()) {
    refuse_power(
        "expected jobs of recorded speed, got simulated speed, whose jobs have no clock: "
        "leave the limits out");
  }
  RunRequest request;
  *request.mutable_replay() = replay;
  request.set_record(record_path);
  Scenario& scenario = *request.mutable_scenario();
  scenario.set_name(replay.trace());
  *scenario.mutable_cluster() = replay.cluster();
  const std::vector<std::string> known = policy_names();
  if (std::find(known.begin(), known.end(), replay.policy()) != known.end()) {
    *scenario.add_policies() = policy_of(replay);
  }  // otherwise the policy is an object of the caller's process, which decides there
  scenario.mutable_run()->set_seed(replay_seed(replay));
  return request;
}

JobsReport replay_report(const JobReplay& replay, Report&& ran, JobTables* tables) {
  JobsReport report = std::move(*ran.mutable_recorded());
  describe(replay, report);
  report.set_events(ran.events());
  report.set_decisions(ran.decisions());
  *report.mutable_host() = ran.host();
  report.set_decision_log_sha256(ran.decision_log_sha256());
  report.set_decision_trace_sha256(ran.decision_trace_sha256());
  if (tables == nullptr) return report;
  ReplayTables& made = *ran.mutable_replay_tables();
  tables->jobs = std::move(*made.mutable_jobs());
  tables->series = std::move(*made.mutable_series());
  tables->outcomes.waits.assign(made.waits().begin(), made.waits().end());
  tables->outcomes.ends.assign(made.ends().begin(), made.ends().end());
  return report;
}

JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& asked, Policy& policy,
                       const std::string& record_path, JobTables* tables) {
  JobReplay replay = with_kinds(asked, jobs);
  settle_slices(replay, jobs);
  const Cluster cluster = cluster_of(replay);
  SimBackend backend(cluster, {Kinds<Action>::of<Assign>(), {}});
  RunConditions conditions = run_conditions(replay.conditions(), cluster, replay_seed(replay));
  conditions.power = power_of(replay, cluster);
  auto made = std::make_unique<RecordedJobs>(std::move(jobs), backend.world(), backend.teller(),
                                             estimates_of(replay), std::move(conditions));
  const RecordedJobs& recorded = *made;
  backend.add(std::move(made));
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  // The hashes are computed only for recorded runs: hashing costs more time than the replay.
  Recorder recorder(backend, policy, header, {.path = record_path, .hash = !record_path.empty()});
  CheckedBackend checked(recorder, replay);
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  JobsReport report;
  report.set_decisions(drive(policy, checked, context));
  recorder.finish_log();
  recorded.fill(report);
  describe(replay, report);
  report.set_events(recorder.events());
  if (tables != nullptr) write_tables(recorded, report, *tables);
  if (record_path.empty()) return report;
  report.set_decision_log_sha256(recorder.log_sha256());
  report.set_decision_trace_sha256(recorder.trace_sha256());
  return report;
}

JobsReport replay_jobs(std::vector<TraceJob> jobs, const JobReplay& replay,
                       const std::string& record_path, JobTables* tables) {
  return replay_jobs(std::move(jobs), replay, *make_stack(replay), record_path, tables);
}

}  // namespace orrery::sim
