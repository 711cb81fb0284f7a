// Refusal of snapshots of another version, and the state of a job at the end of a log. The content
// of a snapshot is tested by training_state_test.
#include "sim/training/training_snapshot.hpp"

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/training/job_faults.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using ::testing::HasSubstr;
using testing::LoneJob;

TEST(TrainingSnapshot, BytesOfAnotherVersionAreRefusedByTheirVersion) {
  LoneJob job;
  job.start();
  std::string bytes = job.bytes();
  bytes[0] = 99;
  try {
    read_state(job.here, bytes);
    FAIL() << "version 99 is read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.message(), HasSubstr("found version 99; "));
  }
}

/// A job of four ranks with a recorded run, whose log is shown up to an instant.
class LoggedJob {
 public:
  /// Records the run. `faults`: as for LoneJob.
  explicit LoggedJob(const std::string& faults = {}) : job_(faults) {
    const LoadedScenario loaded = testing::small_scenario(
        1, 1, 4, faults.empty() ? faults : "faults:\n" + faults);
    report_ = testing::simulate(loaded, {.full_detail = true, .record = log_, .timeline = {}});
  }

  /// Shows the log up to `until`, and gives the job the state at its end.
  const Past& show_until(std::optional<Nanos> until) {
    past_.emplace(log_, until, job_.here.cluster());
    while (past_->next()) past_->check_decisions(DecisionList());
    job_.enter_world(past_->world());
    job_.state() = state_from_log(job_.here, std::move(job_.state()), *past_);
    return *past_;
  }
  LoneJob& job() { return job_; }
  TrainingState& state() { return job_.state(); }
  /// Returns the duration of the first step.
  Nanos step() const { return to_nanos(report_.step_times_s(0)); }

 private:
  const toy::TempDir folder_;
  const std::string log_ = folder_ / "run.log";
  LoneJob job_;
  Report report_;
  std::optional<Past> past_;
};

TEST(TrainingSnapshot, AJobGoesOnWithTheStepAfterThoseOfItsLog) {
  LoggedJob logged;
  const Past& past = logged.show_until(3 * logged.step() + logged.step() / 2);
  TrainingState& state = logged.state();
  EXPECT_TRUE(state.submitted);
  EXPECT_TRUE(state.is_idle()) << "the log ends with a step";
  EXPECT_EQ(state.now, past.now());
  EXPECT_EQ(state.step, 3u);
  EXPECT_EQ(state.metrics.steps(), 3u);
  EXPECT_EQ(state.metrics.started(), 0);
  EXPECT_EQ(state.metrics.last_commit(), past.last_commit());
  logged.job().run_steps(3);
  EXPECT_EQ(state.metrics.steps(), 6u);
  EXPECT_TRUE(state.metrics.is_over());
}

TEST(TrainingSnapshot, AStepThatTheLogLeftOpenIsOpenAsOfItsBegin) {
  const Nanos step = LoggedJob().step();
  const Nanos within = 3 * step + step / 2;
  LoggedJob logged(fmt::format("  - {{at_time: {} ns, gpu: 1, rate: 0.5}}\n", within));
  const Past& past = logged.show_until(within);
  TrainingState& state = logged.state();
  ASSERT_EQ(past.now(), within) << "the change of the GPU is an observation";
  EXPECT_EQ(state.step, 3u);
  ASSERT_TRUE(state.open);
  EXPECT_EQ(state.open->start(), past.last_commit());
  EXPECT_GT(state.open->end(), within);
  EXPECT_EQ(state.faults.reported.size(), 1u);
  EXPECT_EQ(next_report_time(state.faults), kNever) << "the log has shown the change";
}

TEST(TrainingSnapshot, AJobThatHasEndedInItsLogIsOver) {
  LoggedJob logged;
  logged.show_until({});
  EXPECT_TRUE(logged.state().metrics.is_over());
  EXPECT_EQ(logged.state().metrics.steps(), 6u);
  EXPECT_TRUE(logged.state().is_idle());
}

}  // namespace
}  // namespace orrery::sim
