#include "policies/queues/conservative.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
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

/// Free GPUs by second, for a search from second to second.
class PlainPlan {
 public:
  explicit PlainPlan(std::uint32_t free) : free_(kSeconds, free) {}
  void release(Nanos at, std::uint32_t gpus) {
    for (Nanos t = at; t < kSeconds; ++t) free_[static_cast<std::size_t>(t)] += gpus;
  }
  void reserve(Nanos begin, Nanos end, std::uint32_t gpus) {
    for (Nanos t = begin; t < end; ++t) free_[static_cast<std::size_t>(t)] -= gpus;
  }
  Nanos earliest_start(std::uint32_t gpus, Nanos duration, Nanos from) const {
    Nanos lasts = 0;
    for (Nanos t = from; t < kSeconds; ++t) {
      lasts = free_[static_cast<std::size_t>(t)] >= gpus ? lasts + 1 : 0;
      if (lasts >= std::max<Nanos>(duration, 1)) return t + 1 - lasts;
    }
    return kNever;
  }

 private:
  static constexpr Nanos kSeconds = 4000;  // beyond all reservations
  std::vector<std::uint32_t> free_;
};

TEST(Availability, SearchesThatBeginAtFoundStartsFindWhatPlainOnesDo) {
  Rng rng(7);
  Availability plan;
  std::size_t never = 0, later = 0, now = 0;
  for (int round = 0; round < 300; ++round) {
    const auto free = static_cast<std::uint32_t>(rng.below(9));
    plan.reset(0, free);
    PlainPlan plain(free);
    Nanos at = 0;
    for (std::uint64_t ends = rng.below(6); ends > 0; --ends) {
      at += static_cast<Nanos>(rng.below(20));
      const auto gpus = static_cast<std::uint32_t>(1 + rng.below(4));
      plan.release(at, gpus);
      plain.release(at, gpus);
    }
    for (int job = 0; job < 40; ++job) {
      const auto gpus = static_cast<std::uint32_t>(1 + rng.below(12));
      const auto duration = static_cast<Nanos>(rng.below(30));
      const Nanos from = rng.below(5) == 0 ? static_cast<Nanos>(rng.below(40)) : 0;
      const Nanos start = plan.earliest_start(gpus, duration, from);
      ASSERT_EQ(start, plain.earliest_start(gpus, duration, from)) << round << " " << job;
      ++(start == kNever ? never : start > from ? later : now);
      if (start == kNever || rng.below(4) == 0) continue;
      plan.reserve(start, start + duration, gpus);
      plain.reserve(start, start + duration, gpus);
    }
  }
  EXPECT_GT(std::min({never, later, now}), 500u);
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
