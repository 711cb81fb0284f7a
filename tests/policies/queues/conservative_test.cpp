#include "policies/queues/conservative.hpp"

#include <gtest/gtest.h>

#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

TEST(Availability, TheFirstStretchThatIsLongEnough) {
  Availability plan;
  plan.reset(0, 2);
  plan.release(10, 4);
  plan.release(20, 2);
  EXPECT_EQ(plan.earliest_start(2, 5, 0), 0);
  EXPECT_EQ(plan.earliest_start(3, 5, 0), 10);
  EXPECT_EQ(plan.earliest_start(8, 5, 0), 20);
  EXPECT_EQ(plan.earliest_start(9, 5, 0), kNever);
  plan.reserve(10, 15, 6);
  EXPECT_EQ(plan.earliest_start(2, 10, 0), 0);
  EXPECT_EQ(plan.earliest_start(2, 11, 0), 15);
  EXPECT_EQ(plan.earliest_start(2, 11, 17), 17);
  EXPECT_EQ(plan.earliest_start(7, 1, 0), 20);
  EXPECT_TRUE(plan.is_free_for(2, 10, 0));
  EXPECT_FALSE(plan.is_free_for(2, 11, 0));
  EXPECT_FALSE(plan.is_free_for(3, 1, 0));
  EXPECT_TRUE(plan.is_free_for(8, 1'000'000, 20));
}

TEST(Conservative, NoJobDelaysOneBeforeItNotOnlyTheFirst) {
  const auto started = [](const char* policy) {
    QueueHarness queue(policy, 1, 8);
    queue.submit_job(6, 100);
    EXPECT_EQ(queue.ask_policy(), (Started{0}));
    queue.submit_job(6, 50);  // reserved at 100
    queue.submit_job(4, 50);  // reserved at 150
    queue.submit_job(2, 60);  // two are free from now on, and beside the first in line
    queue.submit_job(2, 500);
    return queue.ask_policy();
  };
  EXPECT_EQ(started("easy"), (Started{3}));
  EXPECT_EQ(started("conservative"), (Started{3}));
  const auto delayed = [](const char* policy) {
    QueueHarness queue(policy, 1, 8);
    queue.submit_job(6, 100);
    EXPECT_EQ(queue.ask_policy(), (Started{0}));
    queue.submit_job(3, 50);   // at 100, and five are left over then
    queue.submit_job(5, 50);   // reserved at 100 too
    queue.submit_job(2, 200);  // needs two of those five
    return queue.ask_policy();
  };
  EXPECT_EQ(delayed("easy"), (Started{3}));
  EXPECT_EQ(delayed("conservative"), Started{});
}

}  // namespace
}  // namespace orrery
