#include "sim/chakra/trace_model.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/collectives/protocols.hpp"
#include "sim/estimates/plan/trace_plan.hpp"
#include "traces/chakra/chakra_reader.hpp"
#include "traces/report/report.hpp"
#include "traces/workload/collective.hpp"

namespace orrery::sim {
namespace {

/// Some room is left before the policy clock overflows.
constexpr double kLongestRun = 9e9;  // seconds

std::string in_folder(const std::string& folder, const std::string& file) {
  return file.empty() ? file : (std::filesystem::path(folder) / file).lexically_normal().string();
}

ChakraTrace trace_of(const RunRequest& request, const Cluster& cluster) {
  const Scenario& scenario = request.scenario();
  if (scenario.has_collective()) {
    const Collective& collective = scenario.collective();
    return collective_trace(collective,
                            collective.has_ranks() ? collective.ranks() : cluster.gpus());
  }
  const Trace& trace = scenario.trace();
  return read_chakra({.path = in_folder(request.folder(), trace.chakra()),
                      .groups = in_folder(request.folder(), trace.groups()),
                      .ranks = trace.ranks()});
}

ChakraCollective chakra_kind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return ChakraCollective::all_reduce;
    case CollectiveKind::reduce_scatter: return ChakraCollective::reduce_scatter;
    case CollectiveKind::all_gather: return ChakraCollective::all_gather;
    case CollectiveKind::all_to_all: return ChakraCollective::all_to_all;
    default: return ChakraCollective::broadcast;
  }
}

}  // namespace

ChakraTrace collective_trace(const Collective& collective, std::uint32_t ranks) {
  TraceOp op{.kind = TraceOpKind::collective,
             .collective = chakra_kind(named<CollectiveKind>(collective.kind()))};
  // Chakra counts the contribution of one rank.
  const bool gathers = op.collective == ChakraCollective::all_gather;
  op.bytes = static_cast<std::uint64_t>(std::llround(collective.size() / (gathers ? ranks : 1)));
  ChakraTrace trace;
  trace.name = "collective";
  trace.programs.push_back({.ops = {op}, .after = {}});
  trace.ranks.assign(
      ranks, TraceRank{.program = 0, .first_id = 0, .groups = {0}, .peers = {}, .tags = {}});
  trace.groups.emplace_back(ranks);
  std::iota(trace.groups[0].begin(), trace.groups[0].end(), 0u);
  trace.nodes = ranks;
  return trace;
}

TraceModel::TraceModel(const RunRequest& request, const World& world,
                       estimates::EngineFactory engine, Happen happen)
    : request_(request),
      world_(world),
      engine_(std::move(engine)),
      happen_(std::move(happen)),
      trace_(trace_of(request_, world.cluster())),
      folded_(fold_trace(trace_, world.cluster(), request_.full_detail())) {
  if (request_.timeline().empty()) return;
  throw Error(ErrorKind::usage, "--timeline shows the steps of a job; this scenario has none");
}

void TraceModel::set_milestones(Milestones&) {
  throw Error(ErrorKind::bad_input,
              "futures, and going on from a log, are of a simulated scenario with a job");
}

void TraceModel::submit_job() {
  const auto ranks = static_cast<std::uint32_t>(trace_.ranks.size());
  id_ = {world_.jobs().submitted()};
  JobSpec spec;
  spec.id = id_;
  spec.name = request_.scenario().name();
  spec.gpus = ranks;
  spec.layout.data = ranks;
  spec.steps = steps();
  happen_(JobSubmitted{spec});
  happen_(JobStarted{id_, {1}, 0, {GpuRuns::range({0}, ranks), spec.layout}});
  submitted_ = true;
}

void TraceModel::execute_trace() {
  const Cluster& cluster = world_.cluster();
  const Scenario& scenario = request_.scenario();
  const std::string& algorithm =
      scenario.has_trace() ? scenario.trace().algorithm() : scenario.collective().algorithm();
  const GpuModel& gpu = cluster.gpu_model();
  const estimates::TracePlan plan = estimates::plan_trace(
      trace_, folded_, cluster, estimates::over_links(estimates::cost_profile(gpu), cluster),
      named(algorithm, std::optional(CollectiveAlgorithm::automatic)));
  // Where there is only one communication, there is nobody to share links with.
  const bool alone = folded_.collectives.size() + folded_.sends.size() <= 1;
  const auto slots = static_cast<std::uint32_t>(plan.links.links.size());
  const std::shared_ptr<estimates::Engine> engine =
      alone ? estimates::free_engine(1, slots) : engine_(1, slots);
  const FlopPerSecond peak =
      gpu.peak(named(scenario.trace().precision(), std::optional(Precision::bf16)));
  const std::uint64_t before = engine->events();
  result_ = estimates::run_trace(*engine, trace_, folded_, plan, gpu, peak);
  bounds_ = estimates::bounds(trace_, folded_, plan, gpu, peak);
  engine_events_ = engine->events() - before;
  if (result_.duration * static_cast<double>(steps()) > kLongestRun) {
    throw Error(ErrorKind::bad_input, "run.steps: the run would take longer than 285 years");
  }
}

void TraceModel::begin(Nanos now, const Watch&) {
  if (!submitted_ || ends_ != kNever) return;
  execute_trace();
  began_ = now;
  ends_ = now + to_nanos(result_.duration) * static_cast<Nanos>(steps());
  if (has_faults()) execute_under_faults(now);
}

bool TraceModel::has_faults() const {
  const Scenario& scenario = request_.scenario();
  return scenario.has_collective() && (scenario.faults_size() > 0 || scenario.has_failures());
}

void TraceModel::execute_under_faults(Nanos now) {
  const Cluster& cluster = world_.cluster();
  const Collective& collective = request_.scenario().collective();
  const estimates::CostProfile profile =
      estimates::over_links(estimates::cost_profile(cluster.gpu_model()), cluster);
  std::vector<GpuId> placement;
  for (std::uint32_t rank = 0; rank < trace_.ranks.size(); ++rank) placement.push_back({rank});
  const auto kind = named<CollectiveKind>(collective.kind());
  const Bytes size{collective.size()};
  auto algorithm = named(collective.algorithm(), std::optional(CollectiveAlgorithm::automatic));
  if (algorithm == CollectiveAlgorithm::automatic) {
    algorithm = estimates::choose_nccl_algorithm(cluster, profile, kind, {placement}, size);
  }
  const estimates::PricedSchedule priced = estimates::price_protocols(
      cluster, profile, kind,
      estimates::collective_schedule(cluster, kind, algorithm, {placement}), size);
  faults_.emplace(request_.scenario(), cluster, placement);
  FaultedCollective executed(cluster, profile, priced.schedule, size.value, *faults_);
  course_ = executed.run(steps(), now);
  ends_ = course_.ended;
}

Nanos TraceModel::next_event_time() const {
  if (over_) return kNever;
  return submitted_ ? ends_ : 0;
}

void TraceModel::advance_to(Nanos now, const Watch&) {
  if (!submitted_) return submit_job();
  over_ = true;
  happen_(StepsDone{.job = id_, .last = steps() - 1, .count = steps(), .duration = now - began_});
  happen_(JobDone{id_});
}

std::string TraceModel::refusal(const Decision&) const {
  return "a recorded execution runs as it was recorded";
}

void TraceModel::fill_course(Report& report) const {
  std::vector<std::pair<Nanos, std::uint64_t>> sorted = course_.durations;
  std::sort(sorted.begin(), sorted.end());
  std::uint64_t below = 0;
  for (const auto& [duration, count] : sorted) {
    if (2 * below <= steps()) report.set_step_time_s(to_seconds(duration));
    below += count;
  }
  report.set_iterations_simulated(course_.simulated + 1);
  report.set_iterations_fast_forwarded(steps() - std::min(steps(), course_.simulated + 1));
  report.set_fault_free_step_time_s(result_.duration);
  const double elapsed = to_seconds(ends_ - began_);
  report.set_goodput(std::min(1.0, result_.duration * static_cast<double>(steps()) / elapsed));
  report.set_faults_injected(faults_->begun_count(steps() - 1, ends_));
  faults_->append_fault_counts(steps() - 1, began_, ends_, report);
}

void TraceModel::fill(Report& report, Nanos) {
  const double elapsed = to_seconds(ends_ - began_);
  const auto ranks = static_cast<double>(trace_.ranks.size());
  report.set_ranks(trace_.ranks.size());
  report.set_steps_completed(steps());
  report.set_elapsed_s(elapsed);
  report.set_step_time_s(result_.duration);
  report.set_events(engine_events_);
  report.set_iterations_simulated(1);
  report.set_iterations_fast_forwarded(steps() - 1);
  report.set_rank_classes(folded_.classes.size());
  report.set_goodput(1);
  const double price = world_.cluster().price().per_gpu.value;
  if (price > 0) report.set_cost_usd(price * ranks * elapsed);
  if (faults_ && elapsed > 0) fill_course(report);
  report.mutable_trace_limits()->set_compute_s(bounds_.compute);
  report.mutable_trace_limits()->set_communication_s(bounds_.communication);
  report.mutable_trace_limits()->set_serial_s(bounds_.serial);
  for (const std::string& warning : trace_.warnings) report.add_warnings(warning);
  for (const std::string& warning : folded_.warnings) report.add_warnings(warning);
  if (result_.duration <= 0) return;
  double compute = 0, exposed = 0;
  for (std::size_t i = 0; i < folded_.classes.size(); ++i) {
    const double share =
        static_cast<double>(folded_.classes[i].members.size()) / ranks / result_.duration;
    compute += result_.classes[i].compute * share;
    exposed += result_.classes[i].exposed * share;
  }
  report.set_gpu_utilization(compute + exposed);
  report.mutable_breakdown()->set_compute(compute);
  report.mutable_breakdown()->set_exposed_communication(exposed);
  report.mutable_breakdown()->set_waiting(std::max(0.0, 1 - compute - exposed));
}

void TraceModel::add_outcomes(Report& report) const {
  JobOutcome& outcome = *report.add_jobs();
  outcome.set_name(request_.scenario().name());
  outcome.set_kind(std::string(name_of(OutcomeKind::trace)));
  outcome.set_gpus(static_cast<std::uint32_t>(trace_.ranks.size()));
  outcome.set_submitted_s(0);
  if (ends_ == kNever) return;
  outcome.set_started_s(to_seconds(began_));
  if (over_) outcome.set_ended_s(to_seconds(ends_));
  outcome.set_steps(over_ ? steps() : 0);
  outcome.set_step_time_s(result_.duration);
}

}  // namespace orrery::sim
