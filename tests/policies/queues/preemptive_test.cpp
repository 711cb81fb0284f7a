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
