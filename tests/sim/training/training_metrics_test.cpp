#include "sim/training/training_metrics.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::LoneJob;

Report report_of(LoneJob& job, std::uint64_t simulated) {
  Report report;
  job.state().metrics.fill(job.here.setup(), *job.state().fits.first, simulated, report);
  return report;
}

JobOutcome outcome_of(LoneJob& job, bool failed = false) {
  JobOutcome outcome;
  job.state().metrics.fill(*job.state().fits.first, failed, "rank 3 killed", outcome);
  return outcome;
}

TEST(TrainingMetrics, AJobThatHasNotStartedHasNoBeginAndNoSteps) {
  LoneJob job;
  EXPECT_FALSE(job.state().metrics.has_started());
  EXPECT_EQ(outcome_of(job).SerializeAsString(), "");
  const Report report = report_of(job, 0);
  EXPECT_EQ(report.ranks(), 4u);
  EXPECT_EQ(report.steps_completed(), 0u);
}

TEST(TrainingMetrics, StepsCountFromTheStartToTheNewestCommit) {
  LoneJob job;
  job.state().now = kNanosPerSecond;
  job.start();
  job.run_steps(3);
  TrainingMetrics& metrics = job.state().metrics;
  EXPECT_EQ(metrics.started(), kNanosPerSecond);
  EXPECT_EQ(metrics.steps(), 3u);
  EXPECT_EQ(metrics.last_commit(), job.state().now);
  EXPECT_EQ(metrics.last_progress(), job.state().now);
  const Report report = report_of(job, 1);
  EXPECT_NEAR(report.elapsed_s(), to_seconds(job.state().now - kNanosPerSecond), 1e-9);
  EXPECT_EQ(report.iterations_simulated(), 1u);
  EXPECT_EQ(report.iterations_fast_forwarded(), 2u);
  const JobOutcome outcome = outcome_of(job);
  EXPECT_EQ(outcome.started_s(), 1);
  EXPECT_EQ(outcome.steps(), 3u);
  EXPECT_FALSE(outcome.has_ended_s());
  EXPECT_NEAR(outcome.step_time_s(), outcome.step_time_alone_s(), 1e-9) << "nothing disturbs it";
}

TEST(TrainingMetrics, OnlyAStepThatWasNeverCommittedIsProgress) {
  LoneJob job;
  job.start();
  job.run_steps(3);
  TrainingMetrics& metrics = job.state().metrics;
  const Nanos third = metrics.last_progress();
  metrics.roll_back(3, 1);
  EXPECT_EQ(metrics.steps(), 1u);
  metrics.record_progress(2, third + 10);
  metrics.record_progress(3, third + 20);
  EXPECT_EQ(metrics.last_progress(), third) << "these steps were committed before";
  metrics.record_progress(4, third + 30);
  EXPECT_EQ(metrics.last_progress(), third + 30);
}

TEST(TrainingMetrics, AnEndHasACauseOnlyIfTheJobFailed) {
  LoneJob job;
  job.start();
  job.run_steps(1);
  EXPECT_FALSE(outcome_of(job, true).has_failed()) << "the job has not ended";
  job.state().metrics.end(job.state().now);
  EXPECT_TRUE(job.state().metrics.is_over());
  EXPECT_EQ(outcome_of(job, true).failed(), "rank 3 killed");
  EXPECT_FALSE(outcome_of(job, false).has_failed());
  EXPECT_EQ(outcome_of(job).ended_s(), to_seconds(job.state().now));
}

TEST(TrainingMetrics, CodesAreCountedForEachCommittedStep) {
  LoneJob job;
  job.start();
  EXPECT_EQ(report_of(job, 0).codecs_size(), 0);
  job.run_steps(2);
  EXPECT_GT(report_of(job, 1).codecs_size(), 0);
}

TEST(TrainingMetrics, DrawnFailuresWithoutStatedRecoveryAreWarnedOf) {
  const auto warnings = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = overrides;
    all.push_back("failures={kinds: [{cause: crash, part: job, mtbf: 20 d, kill: true}]}");
    LoneJob job("", all);
    const Report report = report_of(job, 0);
    return std::vector<std::string>(report.warnings().begin(), report.warnings().end());
  };
  EXPECT_THAT(warnings({}), Contains(HasSubstr("failures cost almost no time")));
  EXPECT_THAT(warnings({"survival.detection=30 s"}),
              Not(Contains(HasSubstr("failures cost almost no time"))));
}

TEST(TrainingMetrics, FaultsCountOnceTheyHaveBegun) {
  LoneJob job("  - {at_step: 2, rank: 1, slow: 2}\n  - {at_time: 5 s, rank: 2, slow: 2}\n");
  job.start();
  const auto injected = [&job](Step step, Nanos now) {
    Report report;
    job.state().metrics.fill_faults(job.state().faults.plan, step, now, report);
    return report.faults_injected();
  };
  EXPECT_EQ(injected(1, 0), 0u);
  EXPECT_EQ(injected(2, 0), 1u);
  EXPECT_EQ(injected(2, 5 * kNanosPerSecond), 2u);
}

}  // namespace
}  // namespace orrery::sim
