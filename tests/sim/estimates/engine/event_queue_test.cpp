#include "sim/estimates/engine/event_queue.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::estimates {
namespace {

struct Event {
  double at;
  std::uint64_t number;
  bool is_before(const Event& other) const {
    return at < other.at || (at == other.at && number < other.number);
  }
};

/// Queue under test beside a binary heap, which both get the same events.
class Pair {
 public:
  void add(double at) {
    queue_.add_entry({at, numbers_});
    heap_.push({at, numbers_++});
  }
  /// Removes the first event of both, and returns its time.
  double pop() {
    const auto [at, number] = heap_.top();
    heap_.pop();
    EXPECT_EQ(queue_.front().at, at);
    const Event first = queue_.pop_entry();
    EXPECT_EQ(std::pair(first.at, first.number), std::pair(at, number));
    return at;
  }
  std::size_t size() const { return heap_.size(); }
  /// Returns whether the queue shows at least two events that follow the first one, in order.
  bool shows_next_in_order() const {
    auto heap = heap_;
    const auto shown = queue_.next_entries();
    if (shown.size() < std::min<std::size_t>(2, heap.size() - 1)) return false;
    for (std::size_t i = shown.size(); i > 0; --i) {
      heap.pop();
      if (shown[i - 1].number != heap.top().second) return false;
    }
    return true;
  }
  void clear() {
    queue_.clear();
    heap_ = {};
  }
  bool is_empty() const { return queue_.empty(); }

 private:
  using Timed = std::pair<double, std::uint64_t>;
  EventQueue<Event> queue_;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> heap_;
  std::uint64_t numbers_ = 0;
};

/// Delays as simulations have them: spread evenly, over 20 orders of magnitude, of a few values
/// only, all the same, without an end, and differing in the last bits of a late clock.
constexpr int kKindsOfDelay = 6;
double delay(Rng& random, int kind) {
  switch (kind) {
    case 0: return random.uniform();
    case 1: return std::pow(10, 20 * random.uniform() - 15);
    case 2: return 0.125 * static_cast<double>(random.below(4));
    case 3: return 1;
    case 4: return random.below(4) == 0 ? std::numeric_limits<double>::infinity() : 1e-3;
    default: return 1e9 + 1e-7 * static_cast<double>(random.below(3));
  }
}

class EventQueues : public ::testing::TestWithParam<int> {};

/// Fills the queue, holds it at its size, adds earlier events than any before, and empties it.
TEST_P(EventQueues, EventsLeaveInTheOrderOfAHeap) {
  Rng random(100 + GetParam());
  const auto next_delay = [&] {
    const int any = static_cast<int>(random.below(kKindsOfDelay));
    return delay(random, GetParam() < kKindsOfDelay ? GetParam() : any);
  };
  Pair both;
  double now = 0;
  for (const std::size_t size : {3u, 60u, 5000u, 100u, 20000u}) {
    while (both.size() < size) both.add(now + next_delay());
    for (int i = 0; i < 20000; ++i) {
      const double at = both.pop();
      if (std::isfinite(at)) now = std::max(now, at);
      both.add(i % 100 == 0 ? now / 2 : now + next_delay());
      if (size <= 60) {
        ASSERT_TRUE(both.shows_next_in_order());
      }
    }
    while (both.size() > size / 3) both.pop();
    ASSERT_FALSE(HasFailure());
  }
  while (both.size() > 0) both.pop();
  EXPECT_TRUE(both.is_empty());
}

INSTANTIATE_TEST_SUITE_P(Delays, EventQueues, ::testing::Range(0, kKindsOfDelay + 1));

TEST(EventQueue, AClearedQueueStartsAfresh) {
  Rng random(5);
  Pair both;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3000; ++i) both.add(random.uniform());
    for (int i = 0; i < 1000; ++i) both.pop();
    both.clear();
    EXPECT_TRUE(both.is_empty());
  }
  both.add(2);
  both.add(1);
  EXPECT_EQ(both.pop(), 1);
}

}  // namespace
}  // namespace orrery::estimates
