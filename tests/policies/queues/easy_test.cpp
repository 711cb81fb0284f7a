#include "policies/queues/easy.hpp"

#include <gtest/gtest.h>

#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

/// Eight GPUs, of which six run for 100; the first in line wants all eight.
class Easy : public testing::Test {
 protected:
  Easy() {
    queue.submit_job(4, 100);
    queue.submit_job(2, 50);
    EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
    queue.submit_job(8, 10);
  }
  QueueHarness queue{"easy", 1, 8};
};

TEST_F(Easy, AJobThatEndsBeforeTheShadowMayStart) {
  queue.submit_job(1, 101);
  queue.submit_job(1, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{4}));
}

TEST_F(Easy, AJobThatNeedsOnlyWhatIsLeftOverMayStart) {
  QueueHarness other("easy", 1, 8);
  other.submit_job(6, 100);
  EXPECT_EQ(other.ask_policy(), (Started{0}));
  other.submit_job(7, 10);   // one GPU is left over at 100
  other.submit_job(1, 500);  // takes it
  other.submit_job(1, 500);  // would delay the first in line
  other.submit_job(1, 100);
  EXPECT_EQ(other.ask_policy(), (Started{2, 4}));
}

TEST(ExpectedEnds, AJobThatOutlivesItsEstimateIsGivenAsMuchTimeAgain) {
  constexpr Nanos s = kNanosPerSecond;
  ExpectedEnds ends;
  ends.record_start({1}, 4, 0, 10 * s);
  ends.record_start({2}, 2, 5 * s, 100 * s);
  EXPECT_FALSE(ends.extend_overdue(10 * s)) << "it may end at this instant";
  EXPECT_TRUE(ends.extend_overdue(30 * s));
  EXPECT_EQ(ends.in_order().begin()->at, 60 * s);
  EXPECT_EQ(ends.remove_job({1}), 60 * s);
  EXPECT_EQ(ends.remove_job({1}), kNever);
  EXPECT_EQ(ends.in_order().begin()->job, JobId{2});
}

}  // namespace
}  // namespace orrery
