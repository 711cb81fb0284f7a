#include "sim/training/step_commits.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/training/job_faults.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

TEST(StepCommits, ARollbackMovesStepsToLostWork) {
  LoneJob job;
  job.start();
  job.run_steps(5);
  roll_back_to(job.state(), 2);
  EXPECT_EQ(job.state().step, 2u);
  EXPECT_EQ(job.state().metrics.steps(), 2u);
  EXPECT_GT(job.state().metrics.time().seconds(GpuUse::lost_work), 0);
}

TEST(StepCommits, TheLastStepEndsTheJob) {
  LoneJob job("", {"run.steps=3"});
  job.start();
  job.run_steps(2);
  EXPECT_TRUE(job.events_of<JobDone>().empty());
  job.run_steps(1);
  ASSERT_EQ(job.events_of<JobDone>().size(), 1u);
  EXPECT_EQ(job.events_of<JobDone>().front().how, Ending::completed);
  EXPECT_TRUE(job.state().metrics.is_over());
  std::uint64_t told = 0;
  for (const StepsDone& done : job.events_of<StepsDone>()) told += done.count;
  EXPECT_EQ(told, 3u);
}

TEST(StepCommits, AReportedPartRenewsTheSpares) {
  LoneJob job("  - {at_time: 1 ms, gpu: 4, down: true}\n", {"survival.warm=2"});
  job.start();
  EXPECT_EQ(job.state().warm.size(), 2u);
  job.open_step();
  job.state().now = kNanosPerSecond / 1000;
  emit_due_events(job.here, job.state());
  EXPECT_EQ(job.events_of<PartChanged>().size(), 1u);
  EXPECT_EQ(job.state().warm.size(), 2u);
  EXPECT_FALSE(job.state().warm.contains({4}));
}

/// Returns the changes of parts that the job reports by `until_s`, as text, without a step.
std::vector<std::string> reports(LoneJob& job, std::vector<double> instants_s) {
  std::vector<std::string> lines;
  std::size_t known = 0;
  for (const double at_s : instants_s) {
    job.state().now = to_nanos(at_s);
    note_parts(job.state().faults, job.state().step, job.state().now);
    emit_due_events(job.here, job.state());
    const auto all = job.events_of<PartChanged>();
    for (; known < all.size(); ++known) {
      const PartState& to = all[known].to;
      const std::string rate = to.health == Health::lost ? "lost" : fmt::format("{}", to.rate);
      lines.push_back(fmt::format("{} s: {} {}", at_s, part_name(all[known].part), rate));
    }
  }
  return lines;
}

TEST(StepCommits, ASlowerPartIsReportedAtBothEndsOfItsFaults) {
  LoneJob job(
      "  - {at_time: 1 s, gpu: 6, rate: 0.5, for: 3 s}\n"
      "  - {at_time: 2 s, gpu: 6, rate: 0.5, for: 1 s}\n"
      "  - {at_time: 2 s, node: 0, rate: 0.8, for: 9 s}\n");
  job.start();
  using Lines = std::vector<std::string>;
  EXPECT_EQ(reports(job, {0, 1, 2, 3, 4, 5}),
            (Lines{"1 s: gpu 6 0.5", "2 s: gpu 6 0.25", "2 s: node 0 0.8", "3 s: gpu 6 0.5",
                   "4 s: gpu 6 1"}));
}

TEST(StepCommits, ARateThatChangesDuringATestIsReportedAfterTheTest) {
  const std::string down =
      "  - {at_time: 1 s, gpu: 6, down: true, notice: 1 s, for: 1 s, test: 3 s}\n";
  using Lines = std::vector<std::string>;
  LoneJob job(down + "  - {at_time: 3 s, gpu: 6, rate: 0.5, for: 9 s}\n");
  job.start();
  EXPECT_EQ(reports(job, {0, 1, 2, 3, 4, 5, 6}),
            (Lines{"0 s: gpu 6 1", "1 s: gpu 6 lost", "5 s: gpu 6 0.5"}));
  LoneJob over(down + "  - {at_time: 3 s, gpu: 6, rate: 0.5, for: 1 s}\n");
  over.start();
  EXPECT_EQ(reports(over, {0, 1, 2, 3, 4, 5, 6}),
            (Lines{"0 s: gpu 6 1", "1 s: gpu 6 lost", "5 s: gpu 6 1"}));
}

}  // namespace
}  // namespace orrery::sim
