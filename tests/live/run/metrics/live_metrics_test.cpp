#include "live/run/metrics/live_metrics.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

Scenario two_ranks() {
  Scenario out;
  Job& job = *out.mutable_job();
  job.set_sequence_length(10);
  job.set_micro_batch(2);
  job.set_global_batch(4);
  job.mutable_layout()->set_data(2);
  job.mutable_pace()->set_micro_batch(100'000'000);
  job.mutable_model()->set_builtin("language-model");
  out.mutable_live()->set_reproducible(true);
  return out;
}

StepReport worked(Step step, std::uint64_t micro_batch) {
  StepReport out;
  out.set_step(step);
  out.set_predictions(1);
  OpDone& op = *out.add_ops();
  op.set_phase(COMPUTE);
  op.set_micro_batch(micro_batch);
  return out;
}

/// Settings of steps with two micro-batches.
Settings of_two() {
  Settings out;
  out.set_setting(orrery::Batch{2});
  return out;
}

/// Account of a run, with the state that the journal's records change.
struct AccountedRun {
  explicit AccountedRun(const Scenario& scenario, RunState then = {})
      : job(scenario), state(std::move(then)), metrics(job, state) {}

  /// Commits the reports at `now`; returns the journal's record.
  JournalRecord commit(Step step, const std::vector<StepReport>& reports, Nanos now) {
    for (const StepReport& each : reports) metrics.record_executions(each);
    JournalRecord record;
    JournalCommit& made = *record.mutable_commit();
    made.set_step(step);
    made.set_at(now);
    made.mutable_reports()->Add(reports.begin(), reports.end());
    metrics.record_commit(of_two(), 2, made);
    EXPECT_EQ(apply(state, record, run_rules(job)), std::nullopt);
    return record;
  }
  void commit(Step step, Nanos now) { commit(step, {worked(step, 0), worked(step, 1)}, now); }
  /// Gives up the steps from `step` on.
  void roll_back_to(Step step) {
    JournalRecord record;
    record.mutable_rolled_back()->set_step(step);
    EXPECT_EQ(apply(state, record, run_rules(job)), std::nullopt);
  }
  Report told() const {
    Report out;
    metrics.fill(out);
    return out;
  }

  const Scenario job;
  RunState state;
  LiveMetrics metrics;
};

TEST(LiveMetrics, CountsWhatIsDoneOnceMoreAndWhatIsMissing) {
  AccountedRun run(two_ranks());
  run.metrics.record_executions(worked(0, 0));
  run.metrics.record_discard(0);
  run.commit(0, kNanosPerSecond);
  run.commit(1, {{}, worked(1, 1)}, 2 * kNanosPerSecond);
  const Report out = run.told();
  EXPECT_EQ(out.steps_completed(), 2u);
  EXPECT_EQ(out.samples(), 2 * 2 * run.job.job().micro_batch())
      << "also those of a rank without report";
  EXPECT_EQ(out.micro_batches_recomputed(), 1u);
  EXPECT_EQ(out.micro_batches_lost(), 1u);
  EXPECT_EQ(out.micro_batches_repeated(), 0u);
}

TEST(LiveMetrics, BusyCoresAreCpuOverTheTimeOfCommittedSteps) {
  AccountedRun run(two_ranks());
  ProgressSample sample;
  for (const std::uint32_t rank : {0u, 1u}) {
    run.metrics.hello(rank, 0);
    sample.set_cpu(7);
    run.metrics.record_progress(rank, 0, sample);
    sample.set_cpu(7 + kNanosPerSecond);
    run.metrics.record_progress(rank, 0, sample);
  }
  run.commit(0, 4 * kNanosPerSecond);
  EXPECT_DOUBLE_EQ(run.metrics.busy_cores(), 0.5);
}

TEST(LiveMetrics, AnotherControllerGoesOnFromSnapshotAndCommits) {
  AccountedRun first(two_ranks());
  first.commit(0, kNanosPerSecond);
  JournalRecord begin;
  save_state(first.state, *begin.mutable_snapshot());
  RunState then;
  EXPECT_EQ(apply(then, begin, run_rules(first.job)), std::nullopt);
  first.metrics.record_executions(worked(1, 0));
  first.metrics.record_discard(1);
  const JournalRecord next =
      first.commit(1, {worked(1, 0), worked(1, 1)}, 2 * kNanosPerSecond);
  EXPECT_EQ(apply(then, next, run_rules(first.job)), std::nullopt);

  const AccountedRun second(two_ranks(), std::move(then));
  EXPECT_EQ(second.told().SerializeAsString(), first.told().SerializeAsString());
  EXPECT_EQ(second.told().micro_batches_recomputed(), 1u);
}

TEST(LiveMetrics, StepsThatWereRolledBackAreCounted) {
  AccountedRun run{Scenario()};
  for (const Step step : {0, 1, 2}) run.commit(step, {}, kNanosPerSecond);
  run.roll_back_to(1);
  run.commit(1, {}, 2 * kNanosPerSecond);
  run.roll_back_to(0);
  EXPECT_EQ(run.metrics.steps(), 0u);
  EXPECT_EQ(run.told().steps_rolled_back(), 4u);
  const AccountedRun second(run.job, run.state);
  EXPECT_EQ(second.metrics.steps(), 0u);
  EXPECT_EQ(second.told().steps_rolled_back(), 4u);
}

}  // namespace
}  // namespace orrery::live
