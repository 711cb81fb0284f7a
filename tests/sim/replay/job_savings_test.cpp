#include "sim/replay/job_savings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

constexpr std::int64_t kHour = 3600;

TraceJob job_of(std::int64_t start, std::uint32_t gpus, const char* pool) {
  TraceJob job{.id = "", .gpus = gpus, .submit_s = 0, .duration_s = kHour, .pool = pool};
  job.recorded_start_s = start;
  return job;
}

/// Two jobs on eight GPUs, of two virtual clusters: one waits 1 h, the other `second` hours.
JobsReport outcome(std::int64_t second) {
  return recorded_outcome({job_of(kHour, 8, "a"), job_of(second * kHour, 2, "b")}, 8);
}

TEST(RecordedOutcome, HasTheWaitsOfTheLog) {
  std::vector<TraceJob> jobs = {job_of(kHour, 8, "a"), job_of(3 * kHour, 2, "a")};
  jobs.push_back(job_of(-1, 4, "a"));  // never started
  const JobsReport report = recorded_outcome(jobs, 8);
  EXPECT_EQ(report.jobs_completed(), 2u);
  EXPECT_DOUBLE_EQ(report.queue_mean_s(), 2.0 * kHour);
  EXPECT_DOUBLE_EQ(report.queue_gpu_hours(), 1 * 8 + 3 * 2);
  EXPECT_DOUBLE_EQ(report.makespan_s(), 4.0 * kHour);
  EXPECT_DOUBLE_EQ(report.utilization(), 10.0 / 32);
  EXPECT_FALSE(report.has_preemptions());
  EXPECT_EQ(recorded_outcome({job_of(-1, 4, "a")}, 8).jobs_completed(), 0u);
}

TEST(RecordedOutcome, AJobThatWaitsForOthersWaitsInTheQueueFromTheirEnd) {
  std::vector<TraceJob> jobs = {job_of(kHour, 8, "a"), job_of(5 * kHour, 2, "a")};
  jobs[0].id = "first";
  jobs[1].after = "first";
  EXPECT_DOUBLE_EQ(recorded_outcome(jobs, 8).queue_mean_s(), (1.0 + 3.0) / 2 * kHour)
      << "the first one ends after 2 h";
}

TEST(Savings, AreHoursOfWaitingAndOfTheCluster) {
  const auto saved = savings(outcome(2), {"as recorded", outcome(5)}, 8, 2.5);
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->against(), "as recorded");
  EXPECT_DOUBLE_EQ(saved->queue_hours(), 3);
  EXPECT_DOUBLE_EQ(saved->queue_gpu_hours(), 6);
  EXPECT_DOUBLE_EQ(saved->cluster_gpu_hours(), 24);
  EXPECT_DOUBLE_EQ(saved->usd(), 60);
  ASSERT_EQ(saved->groups_size(), 2);
  for (const JobGroupSaving& group : saved->groups()) {
    EXPECT_DOUBLE_EQ(group.queue_mean_s(), group.key() == "b" ? 3.0 * kHour : 0) << group.key();
  }
}

TEST(Savings, LossesAreNegative) {
  EXPECT_DOUBLE_EQ(savings(outcome(5), {"fifo", outcome(2)}, 8, {})->queue_hours(), -3);
}

TEST(Savings, ClustersOfOtherSizesHaveNoCommonCost) {
  const auto saved = savings(outcome(2), {"fifo", outcome(5)}, {}, 2.5);
  ASSERT_TRUE(saved);
  EXPECT_FALSE(saved->has_cluster_gpu_hours());
  EXPECT_FALSE(saved->has_usd());
}

TEST(Savings, NothingIsComparedOfDifferentJobs) {
  const JobsReport one = recorded_outcome({job_of(kHour, 8, "a")}, 8);
  EXPECT_FALSE(savings(one, {"fifo", outcome(2)}, 8, {}));
  EXPECT_FALSE(savings(JobsReport(), {"fifo", JobsReport()}, 8, {}));
}

}  // namespace
}  // namespace orrery::sim
