#include "live/run/observations/policy_clock.hpp"

#include <gtest/gtest.h>

#include "live/run/observations/policy_ticks.hpp"

namespace orrery::live {
namespace {

TEST(PolicyClock, StandsAtZeroUntilTheFirstStep) {
  PolicyClock clock;
  EXPECT_EQ(clock.now(), 0);
  clock.start();
  EXPECT_GE(clock.now(), 0);
  EXPECT_EQ(clock.at(clock.moment(7)), 7);
  EXPECT_LT(clock.at(clock.moment(-1)), 0);
}

TEST(PolicyClock, AnotherControllerReadsTheSameOnceItGoesOn) {
  PolicyClock first;
  first.start();
  PolicyClock second(first.started());
  EXPECT_EQ(second.now(), 0);
  EXPECT_EQ(second.moment(5), first.moment(5));
  const Nanos before = first.now();
  second.start();
  EXPECT_GE(second.now(), before);
}

TEST(PolicyTicks, NobodyWhoWantsNoneIsAsked) {
  PolicyTicks ticks;
  ticks.begin(0, 0);
  EXPECT_EQ(ticks.next(), kNever);
  EXPECT_FALSE(ticks.is_due(1000, false, false));
}

TEST(PolicyTicks, ComeAtMultiplesOfThePeriodAndNotTwice) {
  PolicyTicks ticks;
  ticks.begin(100, 0);
  EXPECT_FALSE(ticks.is_due(99, false, false));
  EXPECT_TRUE(ticks.is_due(350, false, false));
  EXPECT_EQ(ticks.next(), 400);
  EXPECT_FALSE(ticks.is_due(350, false, false));
  ticks.begin(100, 730);
  EXPECT_EQ(ticks.next(), 800);
}

TEST(PolicyTicks, NobodyIsAskedWhileAllStandOrWhileItRestsAndAllGoesAsBefore) {
  PolicyTicks ticks;
  ticks.begin(100, 0);
  EXPECT_FALSE(ticks.is_due(100, true, false));
  EXPECT_TRUE(ticks.is_due(200, false, true));
  ticks.set_resting(true);
  EXPECT_FALSE(ticks.is_due(300, false, true));
  EXPECT_TRUE(ticks.is_due(400, false, false));
  ticks.set_resting(false);
  EXPECT_TRUE(ticks.is_due(500, false, true));
}

}  // namespace
}  // namespace orrery::live
