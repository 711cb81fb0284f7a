#include "live/run/processes/replacements.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using Ranks = std::vector<std::uint32_t>;

TEST(Replacements, AreStartedAtOnceAndOnce) {
  Replacements replacements;
  Ranks started;
  const auto start = [&started](std::uint32_t rank) {
    started.push_back(rank);
    return true;
  };
  replacements.request_restart(2, 0);
  EXPECT_TRUE(replacements.start(0, start).empty());
  EXPECT_TRUE(replacements.start(1, start).empty());
  EXPECT_EQ(started, (Ranks{2}));
}

TEST(Replacements, WaitUntilTheirProcessCanStart) {
  Replacements replacements;
  replacements.request_restart(1, 0);
  replacements.start(0, [](std::uint32_t) { return false; });
  int started = 0;
  replacements.start(1, [&started](std::uint32_t) { return ++started > 0; });
  EXPECT_EQ(started, 1);
}

TEST(Replacements, WhoDiesBeforeJoiningIsStartedLaterAndLaterAndThenNoMore) {
  Replacements replacements;
  Nanos now = 0;
  std::vector<Nanos> pauses;
  Ranks given_up;
  while (given_up.empty() && pauses.size() < 20) {
    const Nanos wanted = now;
    replacements.request_restart(3, now);
    bool started = false;
    while (!started && given_up.empty()) {
      given_up = replacements.start(now, [&started](std::uint32_t) { return started = true; });
      if (!started) now += kNanosPerSecond / 2;
    }
    if (started) pauses.push_back(now - wanted);
  }
  EXPECT_EQ(given_up, (Ranks{3}));
  ASSERT_EQ(pauses.size(), 8u);
  EXPECT_EQ(pauses[1], 0);
  EXPECT_EQ(pauses[2], kNanosPerSecond / 2);
  EXPECT_EQ(pauses[7], 16 * kNanosPerSecond);
}

TEST(Replacements, WhoHasJoinedBeginsAnew) {
  Replacements replacements;
  for (int i = 0; i < 5; ++i) replacements.request_restart(0, 0);
  replacements.record_member(0);
  int started = 0;
  const auto start = [&started](std::uint32_t) { return ++started > 0; };
  replacements.start(kNever - 1, start);
  EXPECT_EQ(started, 0);
  replacements.request_restart(0, 100);
  replacements.start(100, start);
  EXPECT_EQ(started, 1);
}

}  // namespace
}  // namespace orrery::live
