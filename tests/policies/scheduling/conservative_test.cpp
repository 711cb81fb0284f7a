#include "policies/scheduling/conservative.hpp"

#include <gtest/gtest.h>

#include "tests/policies/scheduling/queue_harness.hpp"

namespace orrery {
namespace {

TEST(Availability, TheFirstStretchThatIsLongEnough) {
  Availability plan;
  plan.reset(0, 2);
  plan.release(10, 4);
  plan.release(20, 2);
  EXPECT_EQ(plan.earliest(2, 5, 0), 0);
  EXPECT_EQ(plan.earliest(3, 5, 0), 10);
  EXPECT_EQ(plan.earliest(8, 5, 0), 20);
  EXPECT_EQ(plan.earliest(9, 5, 0), kNever);
  plan.reserve(10, 15, 6);
  EXPECT_EQ(plan.earliest(2, 10, 0), 0);
  EXPECT_EQ(plan.earliest(2, 11, 0), 15);
  EXPECT_EQ(plan.earliest(2, 11, 17), 17);
  EXPECT_EQ(plan.earliest(7, 1, 0), 20);
  EXPECT_TRUE(plan.free_for(2, 10, 0));
  EXPECT_FALSE(plan.free_for(2, 11, 0));
  EXPECT_FALSE(plan.free_for(3, 1, 0));
  EXPECT_TRUE(plan.free_for(8, 1'000'000, 20));
}

TEST(Conservative, NoJobDelaysOneBeforeItNotOnlyTheFirst) {
  const auto started = [](const char* policy) {
    QueueHarness queue(policy, 1, 8);
    queue.submit(6, 100);
    EXPECT_EQ(queue.ask(), (Started{0}));
    queue.submit(6, 50);  // at 100
    queue.submit(4, 50);  // at 150
    queue.submit(2, 60);  // two are free from now on, and beside the first in line
    queue.submit(2, 500);
    return queue.ask();
  };
  EXPECT_EQ(started("easy"), (Started{3}));
  EXPECT_EQ(started("conservative"), (Started{3}));
  const auto delayed = [](const char* policy) {
    QueueHarness queue(policy, 1, 8);
    queue.submit(6, 100);
    EXPECT_EQ(queue.ask(), (Started{0}));
    queue.submit(3, 50);   // at 100, and five are left over then
    queue.submit(5, 50);   // at 100 too
    queue.submit(2, 200);  // needs two of those five
    return queue.ask();
  };
  EXPECT_EQ(delayed("easy"), (Started{3}));
  EXPECT_EQ(delayed("conservative"), Started{});
}

}  // namespace
}  // namespace orrery
