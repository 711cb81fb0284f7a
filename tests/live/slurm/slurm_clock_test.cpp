#include "live/slurm/slurm_clock.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr Nanos own_time(double seconds) { return static_cast<Nanos>(seconds * 1e9); }

TEST(SlurmClock, ClocksWithinASecondAgree) {
  SlurmClock clock;
  EXPECT_FALSE(clock.compare_clocks(0, own_time(100.2), own_time(100.4))) << "unknown";
  for (const std::int64_t shown_s : {99, 100, 101}) {
    EXPECT_FALSE(clock.compare_clocks(shown_s, own_time(100.2), own_time(100.4))) << shown_s;
  }
  EXPECT_FALSE(clock.compare_clocks(104, own_time(100.2), own_time(105.0))) << "a slow answer";
  EXPECT_EQ(clock.ahead(), 0);
}

TEST(SlurmClock, ADifferenceIsShownOnceFollowedAndMayEnd) {
  SlurmClock clock;
  EXPECT_TRUE(clock.compare_clocks(130, own_time(100.2), own_time(100.4)));
  EXPECT_EQ(clock.ahead(), own_time(30));
  EXPECT_NE(clock.describe_difference().find("differ by 30 s: that of slurmctld is ahead of"),
            std::string::npos);
  for (double own = 101; own < 110; own += 0.3) {
    EXPECT_FALSE(clock.compare_clocks(static_cast<std::int64_t>(own + 30), own_time(own),
                                      own_time(own + 0.1)));
  }
  EXPECT_TRUE(clock.compare_clocks(90, own_time(110.2), own_time(110.4)));
  EXPECT_EQ(clock.ahead(), own_time(-20));
  EXPECT_NE(clock.describe_difference().find("behind"), std::string::npos);
  EXPECT_TRUE(clock.compare_clocks(112, own_time(112.2), own_time(112.4)));
  EXPECT_EQ(clock.ahead(), 0);
  EXPECT_NE(clock.describe_difference().find("agree again"), std::string::npos);
}

}  // namespace
}  // namespace orrery::live
