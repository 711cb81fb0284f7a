#include "live/jobs/trace_clock.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(TraceClock, GoesAsFastAsItIsTold) {
  const Nanos begin = 100 * kNanosPerSecond;
  const TraceClock clock(1000, begin);
  EXPECT_EQ(clock.real(1000 * kNanosPerSecond), std::chrono::seconds(1));
  const auto before = TraceClock::Real::now();
  clock.sleep_until(begin + 50 * kNanosPerSecond);
  EXPECT_GE(TraceClock::Real::now() - before, std::chrono::milliseconds(45));
  EXPECT_GE(clock.now(), begin + 50 * kNanosPerSecond);
  EXPECT_EQ(clock.until(begin), std::chrono::nanoseconds(0));
  EXPECT_GT(clock.until(begin + 1'000'000 * kNanosPerSecond), std::chrono::seconds(900));
}

TEST(TraceClock, ACenturyIsNoOverflow) {
  const TraceClock slow(0.01, 0);
  EXPECT_GT(slow.real(3'000'000'000 * kNanosPerSecond), std::chrono::hours(24));
}

}  // namespace
}  // namespace orrery::live
