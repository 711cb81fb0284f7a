// Pending-event queues against a stable sort.
#include "sim/estimates/engine/calendar.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::estimates {
namespace {

/// Adds and removes at random, at few distinct times, and compares with a list kept in order.
TEST(Calendar, ItemsLeaveByTimeAndThoseOfOneTimeInTheirOrder) {
  Rng random(7);
  Calendar<std::uint32_t> calendar;
  SlotCalendar<std::vector<std::uint32_t>> slots;
  std::vector<std::pair<double, std::uint32_t>> expected;
  std::uint32_t next = 0;
  for (int round = 0; round < 20000; ++round) {
    if (expected.empty() || random.below(10) < (round < 10000 ? 6u : 4u)) {
      const auto at = static_cast<double>(random.below(50));
      calendar.add_entry(at, next);
      const MemoryHint hint{{&next, nullptr, &expected}};  // has no effect that a test can see
      slots.add_entry(at, {next}, hint);
      const auto later = std::upper_bound(
          expected.begin(), expected.end(), at,
          [](double time, const auto& entry) { return time < entry.first; });
      expected.insert(later, {at, next++});
    } else {
      ASSERT_EQ(calendar.next(), expected.front().first);
      ASSERT_EQ(slots.next(), expected.front().first);
      ASSERT_EQ(calendar.pop_entry(), expected.front().second);
      ASSERT_EQ(slots.pop_entry(), std::vector<std::uint32_t>{expected.front().second});
      expected.erase(expected.begin());
    }
  }
  EXPECT_EQ(calendar.empty(), expected.empty());
  calendar.clear();
  EXPECT_TRUE(calendar.empty());
}

}  // namespace
}  // namespace orrery::estimates
