#include "sim/replay/job_savings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "traces/jobs/slowdown.hpp"

namespace orrery::sim {
namespace {

constexpr std::int64_t kHour = 3600;

TraceJob job_of(std::int64_t start, std::uint32_t gpus, const char* pool) {
  TraceJob job{.id = "", .gpus = gpus, .submit_s = 0, .duration_s = kHour, .pool = pool};
  job.recorded_start_s = start;
  return job;
}

/// Two jobs of two virtual clusters: one starts after 1 h, the other after `second` hours.
std::vector<TraceJob> two_jobs(std::int64_t second) {
  return {job_of(kHour, 8, "a"), job_of(second * kHour, 2, "b")};
}

LogOutcome outcome(std::int64_t second) { return recorded_outcome(two_jobs(second), 8); }

const ComparedJobs kTwo(two_jobs(1));

TEST(RecordedOutcome, HasTheWaitsOfTheLog) {
  std::vector<TraceJob> jobs = {job_of(kHour, 8, "a"), job_of(3 * kHour, 2, "a")};
  jobs.push_back(job_of(-1, 4, "a"));  // never started
  const JobsReport report = recorded_outcome(jobs, 8).report;
  EXPECT_EQ(report.jobs_completed(), 2u);
  EXPECT_DOUBLE_EQ(report.queue_mean_s(), 2.0 * kHour);
  EXPECT_DOUBLE_EQ(report.queue_gpu_hours(), 1 * 8 + 3 * 2);
  EXPECT_DOUBLE_EQ(report.bounded_slowdown_mean(), (2.0 + 4.0) / 2);
  EXPECT_DOUBLE_EQ(bounded_slowdown(to_nanos(90), to_nanos(10)), 1.5) << "10 s count as 60";
  EXPECT_DOUBLE_EQ(report.makespan_s(), 4.0 * kHour);
  EXPECT_DOUBLE_EQ(report.utilization(), 10.0 / 32);
  EXPECT_FALSE(report.has_preemptions());
  EXPECT_EQ(recorded_outcome({job_of(-1, 4, "a")}, 8).report.jobs_completed(), 0u);
}

TEST(RecordedOutcome, AJobThatWaitsForOthersWaitsInTheQueueFromTheirEnd) {
  std::vector<TraceJob> jobs = {job_of(kHour, 8, "a"), job_of(5 * kHour, 2, "a")};
  jobs[0].id = "first";
  jobs[1].after = "first";
  EXPECT_DOUBLE_EQ(recorded_outcome(jobs, 8).report.queue_mean_s(), (1.0 + 3.0) / 2 * kHour)
      << "the first one ends after 2 h";
}

TEST(RecordedOutcome, StandsInTheReportOfAReplay) {
  JobsReport report;
  set_recorded(outcome(5).report, report);
  EXPECT_EQ(report.recorded().jobs_completed(), 2u);
  EXPECT_DOUBLE_EQ(report.recorded().queue_mean_s(), 3.0 * kHour);
  EXPECT_EQ(report.recorded().by_vc_size(), 2);
  JobsReport without;
  set_recorded(recorded_outcome({job_of(-1, 4, "a")}, 8).report, without);
  EXPECT_FALSE(without.has_recorded());
}

TEST(Savings, AreHoursOfWaitingAndOfTheCluster) {
  const auto saved = savings(kTwo, outcome(2), outcome(5), {8, 2.5});
  ASSERT_TRUE(saved);
  const JobsSavings& all = saved->savings;
  EXPECT_EQ(all.against(), "as recorded");
  EXPECT_EQ(all.jobs(), 2u);
  EXPECT_DOUBLE_EQ(all.queue_hours(), 3);
  EXPECT_DOUBLE_EQ(all.queue_gpu_hours(), 6);
  EXPECT_DOUBLE_EQ(all.queue_usd(), 15);
  EXPECT_DOUBLE_EQ(all.cluster_gpu_hours(), 24);
  EXPECT_DOUBLE_EQ(all.usd(), 60);
  ASSERT_EQ(all.groups_size(), 2);
  for (const JobGroupSaving& group : all.groups()) {
    EXPECT_DOUBLE_EQ(group.queue_mean_s(), group.key() == "b" ? 3.0 * kHour : 0) << group.key();
  }
}

TEST(Savings, LossesAreNegative) {
  EXPECT_DOUBLE_EQ(savings(kTwo, outcome(5), outcome(2), {8, {}})->savings.queue_hours(), -3);
}

TEST(Savings, ClustersOfOtherSizesHaveNoCommonCost) {
  const auto saved = savings(kTwo, outcome(2), outcome(5), {{}, 2.5});
  ASSERT_TRUE(saved);
  EXPECT_FALSE(saved->savings.has_cluster_gpu_hours());
  EXPECT_FALSE(saved->savings.has_usd());
  EXPECT_TRUE(saved->savings.has_queue_usd());
}

TEST(Savings, AreThoseOfTheJobsThatBothOutcomesHave) {
  // Two jobs in each outcome, of which one is in both: the long waits of the others do not count.
  const ComparedJobs three({job_of(0, 8, "a"), job_of(0, 2, "b"), job_of(0, 4, "b")});
  const auto three_jobs = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    const auto start = [](std::int64_t hours) { return hours < 0 ? -1 : hours * kHour; };
    return recorded_outcome(
        {job_of(start(a), 8, "a"), job_of(start(b), 2, "b"), job_of(start(c), 4, "b")}, 8);
  };
  const LogOutcome now = three_jobs(100, 2, -1), before = three_jobs(-1, 5, 50);
  EXPECT_EQ(now.report.jobs_completed(), before.report.jobs_completed());
  EXPECT_FALSE(have_same_jobs(now.report, before.report));
  EXPECT_TRUE(have_same_jobs(now.report, three_jobs(7, 7, -1).report));
  const auto saved = savings(three, now, before, {8, 1});
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->savings.jobs(), 1u);
  EXPECT_DOUBLE_EQ(saved->savings.queue_hours(), 3);
  EXPECT_DOUBLE_EQ(saved->savings.queue_gpu_hours(), 6);
  EXPECT_DOUBLE_EQ(saved->savings.cluster_gpu_hours(), 24);
  EXPECT_FALSE(savings(three, three_jobs(1, -1, -1), three_jobs(-1, 1, 1), {8, {}}));
}

TEST(Savings, WaitsByUser) {
  std::vector<TraceJob> jobs = two_jobs(5);
  jobs[0].user = "ann";
  const auto saved = savings(ComparedJobs(jobs), outcome(2), outcome(5), {8, {}});
  ASSERT_TRUE(saved);
  const std::string table = waits_csv(*saved);
  EXPECT_THAT(table, testing::HasSubstr("\nuser,ann,1,3600,3600,0,0,0\n"));
  EXPECT_THAT(table, testing::HasSubstr("\nuser,,1,7200,18000,10800,3,6\n"));
  EXPECT_THAT(table, testing::HasSubstr("\nsize,2,1,7200,18000,10800,3,6\n"));
  EXPECT_THAT(table, testing::HasSubstr("\nvc,b,1,7200,18000,10800,3,6\n"));
}

}  // namespace
}  // namespace orrery::sim
