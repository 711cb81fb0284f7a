#include "live/rank/heartbeat.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using std::chrono::milliseconds;

constexpr Nanos kSecond = kNanosPerSecond;

TEST(Heartbeat, BeatsOfAllRanksDoNotGrowWithThemWhileNoneIsTakenForLost) {
  EXPECT_EQ(heartbeat_interval(1, kSecond), milliseconds(25));
  EXPECT_EQ(heartbeat_interval(8, kSecond), milliseconds(25));
  EXPECT_EQ(heartbeat_interval(16, kSecond), milliseconds(50));
  EXPECT_EQ(heartbeat_interval(8000, kSecond), milliseconds(200)) << "a fifth of the timeout";
  EXPECT_EQ(heartbeat_interval(8000, kSecond / 100), milliseconds(25)) << "never faster";
}

TEST(Heartbeat, BeatsAtOnceAndUntilItIsGone) {
  std::atomic<int> beats = 0;
  {
    const HeartbeatSender sender(milliseconds(1), [&] { ++beats; });
    while (beats < 3) std::this_thread::yield();
  }
  const int last = beats;
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(beats, last);
  {
    const HeartbeatSender rare(std::chrono::hours(1), [&] { ++beats; });
    while (beats == last) std::this_thread::yield();
  }
  EXPECT_EQ(beats, last + 1);
}

}  // namespace
}  // namespace orrery::live
