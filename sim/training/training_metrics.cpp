#include "sim/training/training_metrics.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/units.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/estimates/prices/gradient_codes.hpp"
#include "sim/training/job_fit.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::sim {

namespace {

/// Returns the time of a step at the first placement, without faults, in seconds.
double step_alone(FittedJob& first) {
  const auto even = even_split(first.graph().micro_batches(), first.graph().data());
  return to_seconds(to_nanos(first.stepper().step(estimates::HardwareState{}, even)->run.duration));
}

void fill_memory(const TrainingSetup& setup, const StepGraph& graph, Report& report) {
  const std::string unfitted = unfitted_warning(setup.scenario().job());
  if (!unfitted.empty()) report.add_warnings(unfitted);
  const std::string lack = memory_lack(graph, *setup.cluster);
  if (!lack.empty()) report.add_warnings(lack.substr(0, lack.find('\n')));
  double memory = 0;
  const std::uint32_t even = even_split(graph.micro_batches(), graph.data()).front();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    memory = std::max(memory, graph.memory(stage, even).total().value);
  }
  report.set_memory_per_gpu_bytes(memory);
}

/// Adds a warning to the report of a run whose failures are drawn while the recovery takes the
/// times of a small live run, which are the defaults.
void warn_of_recovery(const Scenario& scenario, Report& report) {
  constexpr std::int64_t kShort = kNanosPerSecond;
  const auto& survival = scenario.survival();
  const auto& kinds = scenario.failures().kinds();
  const bool stated = std::any_of(kinds.begin(), kinds.end(),
                                  [](const auto& kind) { return kind.has_detection(); });
  const bool is_short = survival.detection() + survival.regroup() < kShort;
  if (!scenario.has_failures() || stated || !is_short) return;
  report.add_warnings(
      fmt::format("failures cost almost no time, because survival.detection is {} and "
                  "survival.regroup is {}; state those of your cluster, as "
                  "examples/month-10k-h100.yaml does",
                  format_quantity(to_seconds(survival.detection()), Dimension::time),
                  format_quantity(to_seconds(survival.regroup()), Dimension::time)));
}

}  // namespace

TrainingMetrics::TrainingMetrics(const TrainingSetup& setup, FittedJob& first)
    : run_(*setup.cluster, first.shared_graph(), first.stepper().rest()),
      codes_(gradient_parts(setup.scenario().job().model()),
             estimates::gradient_value_bytes(setup.scenario().job())) {}

TrainingMetrics::TrainingMetrics(const TrainingSetup& setup, FittedJob& first, const Past& past,
                                 bool over)
    : TrainingMetrics(setup, first) {
  started_ = 0;
  last_commit_ = past.last_commit();
  last_progress_ = past.now();
  for (std::size_t i = 0; i < past.steps().size(); ++i) {
    const StepsDone& done = past.steps()[i];
    run_.add_told_steps(done.duration, done.count, past.batches()[i]);
  }
  run_.begin_at(past.last_commit());
  time().begin(past.last_commit());
  if (over) ended_ = 0;
}

void TrainingMetrics::begin(const TrainingSetup& setup, FittedJob& first, Nanos now) {
  run_ = RunMetrics(*setup.cluster, first.shared_graph(), first.stepper().rest());
  started_ = last_progress_ = now;
  time().begin(now);
}

void TrainingMetrics::end(Nanos now) {
  time().advance_to(now);
  ended_ = now;
}

void TrainingMetrics::commit_steps(const TrainingSetup& setup,
                                   const estimates::SimulatedStep& each, Nanos duration,
                                   std::uint64_t count, const StepConditions& conditions,
                                   std::uint32_t batch, std::uint32_t replicas,
                                   const std::vector<double>& stretch) {
  run_.commit_steps(each, duration, count, conditions.shares, batch, stretch);
  if (reproducible_sums(setup.scenario())) return;  // in no code, as in live mode
  codes_.add_steps(conditions.codecs, replicas, count);
}

void TrainingMetrics::record_progress(Step next, Nanos now) {
  if (next <= furthest_) return;
  furthest_ = next;
  last_progress_ = now;
}

void TrainingMetrics::fill(const TrainingSetup& setup, FittedJob& first, std::uint64_t simulated,
                           Report& report) const {
  run_.fill(report, last_commit_ - started_.value_or(0),
                 steps() == 0 ? 0 : step_alone(first));
  codes_.fill(report);
  report.set_ranks(first.graph().ranks());
  report.set_iterations_simulated(simulated);
  const std::uint64_t at_least_once = std::min(simulated, steps());
  report.set_iterations_fast_forwarded(steps() - at_least_once);
  fill_memory(setup, first.graph(), report);
  warn_of_recovery(setup.scenario(), report);
}

void TrainingMetrics::fill_faults(const FaultPlan& faults, Step step, Nanos now,
                                Report& report) const {
  report.set_faults_injected(faults.begun_count(step, now));
  faults.append_fault_counts(step, started_.value_or(0), now, report);
}

void TrainingMetrics::fill(FittedJob& first, bool failed, const std::string& cause,
                           JobOutcome& outcome) const {
  if (!started_) return;
  outcome.set_started_s(to_seconds(*started_));
  if (ended_) outcome.set_ended_s(to_seconds(*ended_));
  if (ended_ && failed) outcome.set_failed(cause);
  outcome.set_steps(steps());
  if (steps() == 0) return;
  outcome.set_step_time_s(run_.median_step());
  outcome.set_step_time_alone_s(step_alone(first));
}

}  // namespace orrery::sim
