#include "live/silence.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr Nanos kSecond = kNanosPerSecond;

TEST(Silence, NamesTheRankThatHasNotBeenHeardForTheLimit) {
  Silence silence(2, 10 * kSecond);
  for (Nanos now = 0; now < 10 * kSecond; now += kSecond / 2) {
    silence.heard(0, now);
    EXPECT_FALSE(silence.find(now)) << now;
  }
  EXPECT_EQ(silence.find(10 * kSecond), 1u);
}

TEST(Silence, AListenerThatWasAwayBlamesNobody) {
  Silence silence(2, 10 * kSecond);
  EXPECT_FALSE(silence.find(kSecond));
  EXPECT_FALSE(silence.find(60 * kSecond));  // the whole run stood still
  silence.heard(0, 61 * kSecond);
  for (Nanos now = 60 * kSecond; now < 69 * kSecond; now += kSecond / 2) {
    EXPECT_FALSE(silence.find(now)) << now;
  }
  EXPECT_EQ(silence.find(69 * kSecond), 1u);  // 1 s before the pause and 9 s after it
}

}  // namespace
}  // namespace orrery::live
