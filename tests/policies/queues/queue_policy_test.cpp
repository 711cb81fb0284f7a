#include "policies/queues/queue_policy.hpp"

#include <gtest/gtest.h>

#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

/// Properties of every queue, independent of its order.
class QueueOf : public testing::TestWithParam<const char*> {};

TEST_P(QueueOf, AJobThatWasRefusedStandsInLineAgain) {
  QueueHarness queue(GetParam(), 1, 4);
  queue.submit_job(2, 10);
  queue.submit_job(2, 20);
  EXPECT_EQ(queue.ask_policy(true), (Started{0, 1}));
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
  EXPECT_EQ(queue.ask_policy(), Started{}) << "outcomes of its own decisions are no news";
}

TEST_P(QueueOf, AJobThatEndsWhileItWaitsIsForgotten) {
  QueueHarness queue(GetParam(), 1, 4);
  queue.submit_job(4, 10);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(4, 15);
  queue.submit_job(4, 16);
  EXPECT_EQ(queue.ask_policy(), Started{});
  queue.end(1);
  queue.end(0);
  EXPECT_EQ(queue.ask_policy(), (Started{2}));
}

TEST_P(QueueOf, ASavedPolicyGoesOnWhereItWas) {
  QueueHarness queue(GetParam(), 1, 4);
  queue.submit_job(4, 10);
  queue.submit_job(3, 20);
  queue.submit_job(1, 30);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  EXPECT_EQ(queue.ask_policy(), Started{});
  const Archive before = queue.saved();
  queue.restart_policy(&before);
  queue.end(0);
  EXPECT_EQ(queue.ask_policy(), (Started{1, 2}));
  EXPECT_NE(queue.saved(), before);
}

TEST_P(QueueOf, APendingStartHasItsKindOfGpus) {
  QueueHarness queue(GetParam(), 2, 4, {}, {"A100", "V100"});
  queue.delay_starts();
  queue.submit_job(4, 100 * kNanosPerSecond);
  queue.submit_job(4, 100 * kNanosPerSecond);
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
  queue.submit_job(4, 100 * kNanosPerSecond);
  EXPECT_EQ(queue.ask_policy(), Started{}) << "both nodes are given away";
}

INSTANTIATE_TEST_SUITE_P(All, QueueOf,
                         testing::Values("fifo", "fifo-skip", "sjf", "easy", "conservative", "srtf",
                                         "las", "elastic"));

}  // namespace
}  // namespace orrery
