#include "live/run/account/run_account.hpp"

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

void commit(RunAccount& account, Step step, Nanos now) {
  const std::vector<StepReport> reports{worked(step, 0), worked(step, 1)};
  for (const StepReport& each : reports) account.record_executions(each);
  account.record_commit(step, reports, of_two(), 2, now);
}

void roll_back_to(Past& past, Step step) {
  JournalRecord record;
  record.mutable_rolled_back()->set_step(step);
  EXPECT_EQ(apply(past, record), std::nullopt);
}

Report told(const RunAccount& account) {
  Report out;
  account.fill(out);
  return out;
}

TEST(RunAccount, CountsWhatIsDoneOnceMoreAndWhatIsMissing) {
  const Scenario job = two_ranks();
  RunAccount account(job);
  account.record_executions(worked(0, 0));
  account.record_discard(0);
  commit(account, 0, kNanosPerSecond);
  account.record_executions(worked(1, 1));
  account.record_commit(1, std::vector<StepReport>{{}, worked(1, 1)}, of_two(), 2,
                        2 * kNanosPerSecond);
  const Report out = told(account);
  EXPECT_EQ(out.steps_completed(), 2u);
  EXPECT_EQ(out.samples(), 2 * 2 * job.job().micro_batch())
      << "also those of a rank without report";
  EXPECT_EQ(out.micro_batches_recomputed(), 1u);
  EXPECT_EQ(out.micro_batches_lost(), 1u);
  EXPECT_EQ(out.micro_batches_repeated(), 0u);
}

TEST(RunAccount, BusyCoresAreCpuOverTheTimeOfCommittedSteps) {
  const Scenario job = two_ranks();
  RunAccount account(job);
  ProgressSample sample;
  for (const std::uint32_t rank : {0u, 1u}) {
    account.hello(rank, 0);
    sample.set_cpu(7);
    account.record_progress(rank, 0, sample);
    sample.set_cpu(7 + kNanosPerSecond);
    account.record_progress(rank, 0, sample);
  }
  commit(account, 0, 4 * kNanosPerSecond);
  EXPECT_DOUBLE_EQ(account.busy_cores(), 0.5);
}

TEST(RunAccount, AnotherControllerGoesOnFromSnapshotAndCommits) {
  const Scenario job = two_ranks();
  RunAccount first(job);
  Past past;
  commit(first, 0, kNanosPerSecond);
  JournalRecord begin, next;
  JournalSnapshot& then = *begin.mutable_snapshot();
  then.set_step(1);
  first.save_to(then);
  EXPECT_EQ(apply(past, begin), std::nullopt);
  first.record_executions(worked(1, 0));
  first.record_discard(1);
  commit(first, 1, 2 * kNanosPerSecond);
  JournalCommit& newest = *next.mutable_commit();
  newest.set_step(1);
  newest.set_at(2 * kNanosPerSecond);
  *newest.add_reports() = worked(1, 0);
  *newest.add_reports() = worked(1, 1);
  first.save_to(newest);
  EXPECT_EQ(apply(past, next), std::nullopt);

  RunAccount second(job);
  second.restore_from(past);
  EXPECT_EQ(told(second).SerializeAsString(), told(first).SerializeAsString());
  EXPECT_EQ(told(second).micro_batches_recomputed(), 1u);
}

TEST(RunAccount, AnotherControllerKnowsTheStepsThatWereRolledBack) {
  const Scenario job;
  RunAccount first(job);
  Past past;
  for (const Step step : {0, 1, 2, 1}) {
    if (past.commits.size() == 3) {
      first.roll_back(3, 1);
      roll_back_to(past, 1);
    }
    JournalRecord record;
    JournalCommit& commit = *record.mutable_commit();
    commit.set_step(step);
    commit.set_at(static_cast<Nanos>(past.commits.size() + 1) * kNanosPerSecond);
    first.record_commit(step, {}, of_two(), 0, commit.at());
    first.save_to(commit);
    EXPECT_EQ(apply(past, record), std::nullopt);
  }
  first.roll_back(2, 0);
  roll_back_to(past, 0);
  EXPECT_EQ(first.steps(), 0u);
  RunAccount second(job);
  second.restore_from(past);
  EXPECT_EQ(second.steps(), 0u);
  Report report;
  second.fill(report);
  EXPECT_EQ(report.steps_rolled_back(), 4u);
}

}  // namespace
}  // namespace orrery::live
