#include "live/run/operator/run_status.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

Scenario scenario() {
  Scenario out;
  out.set_name("small");
  out.mutable_run()->set_steps(9);
  out.add_policies()->set_name("static");
  out.mutable_checkpoints()->set_folder("somewhere");
  return out;
}

void add(RunState& state, const JournalRecord& record) {
  EXPECT_EQ(apply(state, record, run_rules(scenario())), std::nullopt);
}

TEST(RunStatus, ARunThatHasNotStartedIsStarting) {
  const RunStatus status = status_of({}, scenario());
  EXPECT_EQ(status.scenario, "small");
  EXPECT_EQ(status.policies, std::vector<std::string>{"static"});
  EXPECT_EQ(status.phase, "starting");
  EXPECT_EQ(status.steps, 9u);
  EXPECT_EQ(status.step, 0u);
  EXPECT_EQ(status.step_time_s, 0);
  EXPECT_EQ(status.loss, 0);
  EXPECT_TRUE(status.keeps_checkpoints);
}

TEST(RunStatus, TheRecordsOfTheJournalDetermineIt) {
  RunState state;
  JournalRecord record;
  record.set_started(77);
  add(state, record);
  record.mutable_membership()->set_epoch(3);
  add(state, record);
  for (const Step step : {0, 1}) {
    JournalCommit& commit = *record.mutable_commit();
    commit.set_step(step);
    commit.set_at(static_cast<Nanos>(step + 1) * (step + 1) * kNanosPerSecond);
    commit.set_samples(8);
    commit.set_checkpoint(step + 5);
    commit.set_tier(TIER_LOCAL_DISK);
    StepReport& report = *commit.add_reports();
    report.set_loss_sum(10);
    report.set_predictions(step == 0 ? 2 : 4);
    add(state, record);
    record.clear_commit();
  }
  JournalSeen& seen = *record.mutable_seen();
  seen.add_losses()->set_rank(2);
  for (const Step step : {1, 2}) {
    SaveDoneRecord& done = *seen.mutable_observation()->add_events()->mutable_save_done();
    done.set_step(step);
    done.set_tier(TIER_LOCAL_DISK);
    done.set_durable(step == 1);
  }
  add(state, record);
  const RunStatus status = status_of(state, scenario());
  EXPECT_EQ(status.phase, "training");
  EXPECT_EQ(status.step, 2u);
  EXPECT_DOUBLE_EQ(status.elapsed_s, 4);
  EXPECT_DOUBLE_EQ(status.step_time_s, 3) << "of the newest step";
  EXPECT_DOUBLE_EQ(status.loss, 2.5) << "of the newest step";
  EXPECT_EQ(status.samples, 16u);
  EXPECT_EQ(status.epoch, 3u);
  EXPECT_EQ(status.losses, 1u);
  EXPECT_EQ(status.checkpoints_written, 1u);
  EXPECT_EQ(status.checkpoints_failed, 1u);

  record.mutable_seen()->mutable_observation()->add_events()->mutable_job_held();
  record.mutable_seen()->clear_losses();
  add(state, record);
  EXPECT_EQ(status_of(state, scenario()).phase, "held");
  record.mutable_rolled_back()->set_step(1);
  add(state, record);
  EXPECT_EQ(status_of(state, scenario()).step, 1u);
  EXPECT_EQ(status_of(state, scenario()).samples, 8u);
}

}  // namespace
}  // namespace orrery::live
