#include "policies/queues/elastic.hpp"

#include <gtest/gtest.h>

#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

constexpr Nanos kMinute = 60 * kNanosPerSecond;

/// Limits of an elastic job.
JobSpec between(std::uint32_t least, std::uint32_t most) {
  JobSpec job;
  job.least_gpus = least;
  job.most_gpus = most;
  return job;
}

/// Numbers of GPUs of the jobs 0, 1, ...
std::vector<std::size_t> sizes(const QueueHarness& queue) {
  std::vector<std::size_t> out;
  for (const JobInfo& job : queue.world().jobs()) {
    if (job.phase != JobPhase::done) out.push_back(job.gpus.size());
  }
  return out;
}

using Sizes = std::vector<std::size_t>;

TEST(Elastic, JobsShrinkForAWaitingJobAsFarAsItNeeds) {
  QueueHarness queue("elastic", 1, 8);
  queue.submit_owned(4, 100, between(1, 4));
  queue.submit_owned(4, 100, between(2, 4));
  queue.ask_policy();
  queue.submit_owned(4, 100, between(3, 4));
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1, 2})) << "the newer job shrinks first";
  EXPECT_EQ(sizes(queue), (Sizes{3, 2, 3}));
  EXPECT_EQ(queue.world().jobs()[{0}].layout.data, 3u);
  queue.submit_job(4, 100);
  EXPECT_EQ(queue.ask_policy(), Started{}) << "two GPUs would not be enough";
  EXPECT_EQ(sizes(queue), (Sizes{3, 2, 3, 0}));
}

TEST(Elastic, AJobStartsWithFewerGpusThanItAsksFor) {
  QueueHarness queue("elastic", 1, 8);
  queue.submit_job(5, 100);
  queue.submit_owned(8, 100, between(2, 8));
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
  EXPECT_EQ(sizes(queue), (Sizes{5, 3}));
}

TEST(Elastic, JobsOfOnePassShareTheCluster) {
  QueueHarness queue("elastic", 1, 8);
  for (int i = 0; i < 3; ++i) queue.submit_owned(8, 100, between(2, 8));
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1, 2}));
  EXPECT_EQ(sizes(queue), (Sizes{4, 2, 2})) << "each makes room for the next";
}

TEST(Elastic, JobsGrowWhereNoJobWaitsAndTimeHasPassed) {
  QueueHarness queue("elastic", 1, 8, {"elastic.settle=2min"});
  queue.submit_owned(4, 100, between(2, 8));
  queue.submit_owned(4, 100, between(2, 4));
  queue.ask_policy();
  queue.ask_policy();  // shows the starts
  queue.set_time(kMinute);
  queue.end(1);
  EXPECT_EQ(queue.ask_policy(), Started{});
  EXPECT_EQ(queue.wake_times(), (std::vector<Nanos>{2 * kMinute}));
  queue.set_time(2 * kMinute);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  EXPECT_EQ(sizes(queue), (Sizes{8}));
  queue.set_time(3 * kMinute);
  queue.submit_job(6, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{0, 2}));
  EXPECT_EQ(sizes(queue), (Sizes{2, 6}));
}

TEST(Elastic, JobsBelowTheirRequestGrowBeforeOthers) {
  QueueHarness queue("elastic", 1, 8, {"elastic.settle=0s"});
  queue.submit_owned(2, 100, between(1, 8));
  queue.submit_owned(4, 100, between(4, 4));
  queue.submit_owned(4, 100, between(2, 4));
  queue.ask_policy();
  EXPECT_EQ(sizes(queue), (Sizes{2, 4, 2}));
  queue.end(1);
  EXPECT_EQ(queue.ask_policy(), (Started{0, 2}));
  EXPECT_EQ(sizes(queue), (Sizes{4, 4})) << "the request of the later job, then the first job";
}

TEST(Elastic, ATrainingJobKeepsItsSize) {
  QueueHarness queue("elastic", 1, 8);
  JobSpec training = between(1, 8);
  training.micro_batches = 16;
  queue.submit_owned(8, 100, training);
  queue.ask_policy();
  queue.submit_job(4, 100);
  EXPECT_EQ(queue.ask_policy(), Started{});
  EXPECT_EQ(sizes(queue), (Sizes{8, 0}));
}

TEST(Elastic, ASavedPolicyKnowsTheNewestChangesOfSize) {
  QueueHarness queue("elastic", 1, 8, {"elastic.settle=2min"});
  queue.submit_owned(8, 100, between(2, 8));
  queue.ask_policy();
  queue.set_time(kMinute);
  queue.submit_job(4, 100);
  queue.ask_policy();
  queue.ask_policy();  // shows the change of size
  const Archive saved = queue.saved();
  queue.restart_policy(&saved);
  queue.end(1);
  EXPECT_EQ(queue.ask_policy(), Started{});
  EXPECT_EQ(queue.wake_times(), (std::vector<Nanos>{3 * kMinute}));
  queue.set_time(3 * kMinute);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
}

}  // namespace
}  // namespace orrery
