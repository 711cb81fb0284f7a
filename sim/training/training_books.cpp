#include "sim/training/training_books.hpp"

#include <algorithm>
#include <utility>

#include "policies/seam/fabric_rules.hpp"
#include "sim/estimates/prices/gradient_codes.hpp"
#include "sim/training/job_fit.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::sim {

TrainingBooks::TrainingBooks(const JobInWorld& here, const FitCache& fits)
    : here_(here),
      fits_(fits),
      accounts_(std::in_place, here.cluster(), fits.initial_fit()->graph(),
                fits.initial_fit()->stepper().rest()),
      codes_(gradient_parts(here.scenario().job().model()),
             estimates::gradient_value_bytes(here.scenario().job())) {}

void TrainingBooks::begin(Nanos now) {
  FittedJob& begun = *fits_.initial_fit();
  accounts_.emplace(here_.cluster(), begun.graph(), begun.stepper().rest());
  started_ = last_progress_ = now;
  time().begin(now);
}

void TrainingBooks::continue_from(const Past& past, bool over) {
  started_ = 0;
  last_commit_ = past.last_commit();
  last_progress_ = past.now();
  for (std::size_t i = 0; i < past.steps().size(); ++i) {
    const StepsDone& done = past.steps()[i];
    accounts_->add_told_steps(done.duration, done.count, past.batches()[i]);
  }
  accounts_->begin_at(past.now());
  if (over) ended_ = 0;
}

void TrainingBooks::end(Nanos now) {
  time().advance_to(now);
  ended_ = now;
}

void TrainingBooks::commit_steps(const estimates::SimulatedStep& each, Nanos duration,
                           std::uint64_t count, const NextStep::Circumstances& circumstances,
                           const std::vector<double>& stretch) {
  accounts_->commit_steps(each, duration, count, circumstances.shares, here_.job().micro_batches(),
                          stretch);
  if (reproducible_sums(here_.scenario())) return;  // in no code, as in live mode
  codes_.add_steps(circumstances.codecs, fits_.now()->graph().data(), count);
}

void TrainingBooks::record_progress(Step next, Nanos now) {
  if (next <= furthest_) return;
  furthest_ = next;
  last_progress_ = now;
}

/// Returns the time of a step at the first placement, without faults, in seconds.
double TrainingBooks::step_alone() const {
  FittedJob& begun = *fits_.initial_fit();
  const auto even = even_split(begun.graph().micro_batches(), begun.graph().data());
  return to_seconds(to_nanos(begun.stepper().step(estimates::HardwareState{}, even)->run.duration));
}

void TrainingBooks::fill(Report& report) const {
  const std::uint64_t simulated = fits_.simulated();  // must not count the following simulation
  accounts_->fill(report, last_commit_ - started_.value_or(0), steps() == 0 ? 0 : step_alone());
  codes_.fill(report);
  report.set_ranks(fits_.initial_fit()->graph().ranks());
  report.set_iterations_simulated(simulated);
  const std::uint64_t at_least_once = std::min(simulated, steps());
  report.set_iterations_fast_forwarded(steps() - at_least_once);
  report.set_rank_classes(fits_.most_classes());
  fill_memory(report);
}

void TrainingBooks::fill_memory(Report& report) const {
  const StepGraph& graph = fits_.initial_fit()->graph();
  const std::string unfitted = unfitted_warning(here_.scenario().job());
  if (!unfitted.empty()) report.add_warnings(unfitted);
  const std::string lack = memory_lack(graph, here_.cluster());
  if (!lack.empty()) report.add_warnings(lack.substr(0, lack.find('\n')));
  double memory = 0;
  const std::uint32_t even = even_split(graph.micro_batches(), graph.data()).front();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    memory = std::max(memory, graph.memory(stage, even).total().value);
  }
  report.set_memory_per_gpu_bytes(memory);
}

void TrainingBooks::fill_faults(const FaultPlan& faults, Step step, Nanos now,
                                Report& report) const {
  report.set_faults_injected(faults.begun_count(step, now));
  faults.append_fault_counts(step, started_.value_or(0), now, report);
}

void TrainingBooks::fill(JobOutcome& outcome, bool failed, const std::string& cause) const {
  if (!started_) return;
  outcome.set_started_s(to_seconds(*started_));
  if (ended_) outcome.set_ended_s(to_seconds(*ended_));
  if (ended_ && failed) outcome.set_failed(cause);
  outcome.set_steps(steps());
  if (steps() == 0) return;
  outcome.set_step_time_s(accounts_->median_step());
  outcome.set_step_time_alone_s(step_alone());
}

}  // namespace orrery::sim
