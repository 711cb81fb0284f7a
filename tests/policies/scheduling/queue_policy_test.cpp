#include "policies/scheduling/queue_policy.hpp"

#include <gtest/gtest.h>

#include "tests/policies/scheduling/queue_harness.hpp"

namespace orrery {
namespace {

/// What holds for every queue, whatever its order.
class QueueOf : public testing::TestWithParam<const char*> {};

TEST_P(QueueOf, AJobThatWasRefusedStandsInLineAgain) {
  QueueHarness queue(GetParam(), 1, 4);
  queue.submit(2, 10);
  queue.submit(2, 20);
  EXPECT_EQ(queue.ask(true), (Started{0, 1}));
  EXPECT_EQ(queue.ask(), (Started{0, 1}));
  EXPECT_EQ(queue.ask(), Started{}) << "outcomes of its own decisions are no news";
}

TEST_P(QueueOf, AJobThatEndsWhileItWaitsIsForgotten) {
  QueueHarness queue(GetParam(), 1, 4);
  queue.submit(4, 10);
  EXPECT_EQ(queue.ask(), (Started{0}));
  queue.submit(4, 15);
  queue.submit(4, 16);
  EXPECT_EQ(queue.ask(), Started{});
  queue.end(1);
  queue.end(0);
  EXPECT_EQ(queue.ask(), (Started{2}));
}

TEST_P(QueueOf, ASavedPolicyGoesOnWhereItWas) {
  QueueHarness queue(GetParam(), 1, 4);
  queue.submit(4, 10);
  queue.submit(3, 20);
  queue.submit(1, 30);
  EXPECT_EQ(queue.ask(), (Started{0}));
  EXPECT_EQ(queue.ask(), Started{});
  const Archive before = queue.saved();
  queue.restart(&before);
  queue.end(0);
  EXPECT_EQ(queue.ask(), (Started{1, 2}));
  EXPECT_NE(queue.saved(), before);
}

INSTANTIATE_TEST_SUITE_P(All, QueueOf,
                         testing::Values("fifo", "fifo-skip", "sjf", "easy", "conservative", "srtf",
                                         "las"));

}  // namespace
}  // namespace orrery
