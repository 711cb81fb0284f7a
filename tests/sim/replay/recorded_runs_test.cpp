#include "sim/replay/recorded_runs.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

constexpr Nanos kSecond = kNanosPerSecond;

/// Jobs of 100 and 50 seconds.
NumberedTrace two_jobs() {
  std::vector<TraceJob> jobs(2);
  jobs[0].duration_s = 100;
  jobs[1].duration_s = 50;
  for (TraceJob& job : jobs) job.gpus = 1;
  return {std::move(jobs), 8};
}

TEST(RecordedRuns, EachEndsAfterItsDuration) {
  const NumberedTrace trace = two_jobs();
  RecordedRuns runs(trace, {});
  EXPECT_FALSE(runs.next_end());
  runs.start(0, 0, 1);
  runs.start(1, 10 * kSecond, 2);
  EXPECT_EQ(runs.next_end(), 60 * kSecond);
  EXPECT_EQ(runs.end_one(60 * kSecond), 1u);
  EXPECT_EQ(runs.end_one(60 * kSecond), RecordedRuns::kNone);
  EXPECT_TRUE(runs.over(1));
  EXPECT_EQ(runs.first_start(1), 10 * kSecond);
  EXPECT_EQ(runs.end(1), 60 * kSecond);
  EXPECT_EQ(runs.run_time(1), 50 * kSecond);
  EXPECT_EQ(runs.nodes(1), 2u);
  EXPECT_EQ(runs.next_end(), 100 * kSecond);
}

TEST(RecordedRuns, WhoLeavesGoesOnLaterAndPaysForIt) {
  const NumberedTrace trace = two_jobs();
  RecordedRuns runs(trace, {.restart_cost = 5 * kSecond});
  runs.start(0, 0, 1);
  runs.stop(0, 40 * kSecond, {});
  EXPECT_FALSE(runs.next_end()) << "its end is void";
  runs.start(0, 200 * kSecond, 1);
  EXPECT_EQ(runs.next_end(), 265 * kSecond);
  EXPECT_EQ(runs.move_count(0), 3u);
  EXPECT_EQ(runs.end_one(265 * kSecond), 0u);
  EXPECT_EQ(runs.run_time(0), 105 * kSecond);
  EXPECT_EQ(runs.lost_time(0), 5 * kSecond);
}

TEST(RecordedRuns, AFailureCostsWhatCameAfterTheLastCheckpoint) {
  const NumberedTrace trace = two_jobs();
  RecordedRuns runs(trace, {});
  runs.start(0, 0, 1);
  runs.stop(0, 47 * kSecond, 20 * kSecond);
  runs.start(0, 50 * kSecond, 1);
  EXPECT_EQ(runs.next_end(), 110 * kSecond);
  runs.end_one(110 * kSecond);
  EXPECT_EQ(runs.lost_time(0), 7 * kSecond);
}

TEST(RecordedRuns, ARunEndsAtTheTimeLimitOfItsJob) {
  std::vector<TraceJob> jobs(3);
  for (TraceJob& job : jobs) job.gpus = 1, job.duration_s = 100;
  jobs[0].requested_s = 60;
  jobs[1].requested_s = 100;
  const NumberedTrace trace(std::move(jobs), 8);
  for (const bool limited : {false, true}) {
    RecordedRuns runs(trace, {.restart_cost = 5 * kSecond, .limited = limited});
    for (const std::uint32_t number : {0, 1, 2}) runs.start(number, 10 * kSecond, 1);
    EXPECT_EQ(runs.next_end(), (limited ? 70 : 110) * kSecond);
    if (!limited) continue;
    EXPECT_EQ(runs.end_one(70 * kSecond), 0u);
    EXPECT_TRUE(runs.is_timed_out(0));
    EXPECT_EQ(runs.run_time(0), 60 * kSecond);
    EXPECT_EQ(runs.end(0), 70 * kSecond);
    runs.stop(1, 50 * kSecond, {});
    runs.start(1, 200 * kSecond, 1);
    EXPECT_EQ(runs.end_one(110 * kSecond), 2u) << "without a limit";
    EXPECT_EQ(runs.next_end(), 265 * kSecond) << "each run has the limit anew";
    EXPECT_EQ(runs.end_one(265 * kSecond), 1u);
    EXPECT_FALSE(runs.is_timed_out(1));
    EXPECT_FALSE(runs.is_timed_out(2));
  }
}

TEST(RecordedRuns, AChangeOfSizeMovesTheEndAndCosts) {
  std::vector<TraceJob> jobs(1);
  jobs[0].gpus = 8;
  jobs[0].duration_s = 100;
  jobs[0].sizes = "2 8";
  const NumberedTrace trace(std::move(jobs), 8);
  RecordedRuns runs(trace, {.restart_cost = 5 * kSecond});
  runs.start(0, 0, 1, {4, 0.5});
  EXPECT_EQ(runs.next_end(), 200 * kSecond);
  runs.resize(0, 40 * kSecond, 2, {8, 1});
  EXPECT_EQ(runs.next_end(), 125 * kSecond) << "80 s are left, after 5 s";
  runs.resize(0, 43 * kSecond, 1, {2, 0.25});
  EXPECT_EQ(runs.next_end(), 368 * kSecond) << "the restart begins anew";
  EXPECT_EQ(runs.end_one(125 * kSecond), RecordedRuns::kNone);
  EXPECT_EQ(runs.end_one(368 * kSecond), 0u);
  EXPECT_EQ(runs.resizes(0), 2u);
  EXPECT_EQ(runs.run_time(0), 368 * kSecond);
  EXPECT_EQ(runs.work_time(0), 100 * kSecond);
  EXPECT_EQ(runs.lost_time(0), 8 * kSecond);
  ASSERT_TRUE(runs.gpu_time(0));
  EXPECT_DOUBLE_EQ(runs.gpu_time(0)->used, 40 * 4 + 3 * 8 + 325 * 2);
  EXPECT_DOUBLE_EQ(runs.gpu_time(0)->lost, 3 * 8 + 5 * 2);
}

TEST(RecordedRuns, APaceMovesTheEnd) {
  const NumberedTrace trace = two_jobs();
  RecordedRuns runs(trace, {.paced = true});
  runs.start(1, 0, 1);
  runs.set_pace(1, 10 * kSecond, 0.5);
  EXPECT_EQ(runs.next_end(), 90 * kSecond);
  EXPECT_EQ(runs.end_one(50 * kSecond), RecordedRuns::kNone);
}

}  // namespace
}  // namespace orrery::sim
