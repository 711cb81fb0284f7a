#include "policies/queues/preemptive.hpp"

#include <gtest/gtest.h>

#include "policies/queues/las.hpp"
#include "policies/queues/remaining.hpp"
#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

constexpr Nanos seconds(std::int64_t count) { return count * kNanosPerSecond; }

TEST(Srtf, TheShorterTakesItsPlace) {
  QueueHarness queue("srtf", 1, 4);
  queue.submit_job(4, seconds(100));
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(4, seconds(10));
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1})) << "one leaves, the other starts";
  EXPECT_FALSE(queue.world().jobs()[{0}].is_placed());
  EXPECT_TRUE(queue.world().jobs()[{1}].is_placed());
  EXPECT_EQ(queue.ask_policy(), Started{});
  queue.end(1);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
}

TEST(Srtf, AStartThatIsPendingMakesRoomAtOnce) {
  QueueHarness queue("srtf", 1, 4);
  queue.delay_starts();
  queue.submit_job(4, seconds(100));
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  ASSERT_FALSE(queue.world().jobs()[{0}].is_placed());
  queue.submit_job(4, seconds(10));
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1})) << "one start is withdrawn, the other begins";
  EXPECT_TRUE(queue.world().jobs()[{1}].next.has_value());
}

TEST(MaxMin, AStartThatIsPendingMakesRoomAtOnce) {
  QueueHarness queue("max-min", 1, 4);
  queue.delay_starts();
  JobSpec owner;
  owner.pool = "a";
  queue.submit_owned(2, seconds(100), owner);
  queue.submit_owned(2, seconds(100), owner);
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
  owner.pool = "b";
  queue.submit_owned(2, seconds(100), owner);
  EXPECT_EQ(queue.ask_policy(), (Started{1, 2})) << "each has half of the GPUs";
}

TEST(Srtf, EqualsDoNotTakeEachOthersPlaces) {
  QueueHarness queue("srtf", 1, 4);
  queue.submit_job(4, seconds(10));
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(4, seconds(10));
  EXPECT_EQ(queue.ask_policy(), Started{});
}

TEST(Srsf, CountsGpusToo) {
  for (const char* policy : {"srtf", "srsf"}) {
    QueueHarness queue(policy, 1, 4);
    queue.submit_job(4, seconds(50));
    EXPECT_EQ(queue.ask_policy(), (Started{0}));
    queue.submit_job(1, seconds(60));  // longer, and less work
    EXPECT_EQ(queue.ask_policy(), policy[2] == 't' ? Started{} : (Started{0, 1}));
  }
}

TEST(Las, FirstComeFirstServedUntilTheThreshold) {
  QueueHarness queue("las", 1, 4);
  queue.submit_job(4, 0);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(4, 0);
  EXPECT_EQ(queue.ask_policy(), Started{});
  queue.end(0);
  EXPECT_EQ(queue.ask_policy(), (Started{1}));
}

}  // namespace
}  // namespace orrery
