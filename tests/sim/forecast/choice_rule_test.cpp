#include "sim/forecast/choice_rule.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

constexpr ChoiceThresholds kQuick{.least_gain = 0.05, .least_forecasts = 12, .in_a_row = 3};

TEST(ChoiceRule, SwitchesAfterLastingLargeGains) {
  ChoiceRule rule({"fifo", "srtf"}, kQuick);
  for (int i = 1; i < 12; ++i) EXPECT_FALSE(rule.add_forecast({60, 50}, i)) << i;
  const auto made = rule.add_forecast({60, 50}, 12);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->at, 12);
  EXPECT_EQ(made->from, "fifo");
  EXPECT_EQ(made->to, "srtf");
  EXPECT_NEAR(made->forecast_from, 60, 1e-9);
  EXPECT_NEAR(made->forecast_to, 50, 1e-9);
  EXPECT_EQ(rule.chosen_policy(), 1u);
}

TEST(ChoiceRule, StaysForSmallOrShortGains) {
  ChoiceRule small({"fifo", "srtf"}, kQuick), unsteady({"fifo", "srtf"}, kQuick);
  for (int i = 0; i < 500; ++i) {
    EXPECT_FALSE(small.add_forecast({100, 96}, i));
    EXPECT_FALSE(unsteady.add_forecast({100, i % 3 == 0 ? 101.0 : 60.0}, i));
  }
}

TEST(ChoiceRule, StaysForGainsThatOneDayMayNotShow) {
  ChoiceRule rule({"srtf", "sjf"});
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(rule.add_forecast({60, 50}, i));
}

TEST(ChoiceRule, ReturnsAtTheSameThresholds) {
  ChoiceRule rule({"fifo", "srtf"}, kQuick);
  for (int i = 0; i < 40; ++i) rule.add_forecast({60, 30}, i);
  ASSERT_EQ(rule.chosen_policy(), 1u);
  int until_back = 0;
  while (rule.chosen_policy() == 1 && until_back < 200) {
    rule.add_forecast({30, 60}, 40 + until_back);
    ++until_back;
  }
  EXPECT_EQ(rule.switches().size(), 2u);
  EXPECT_GT(until_back, 10);
  EXPECT_LT(until_back, 60);
}

TEST(ChoiceRule, NeedsTwiceTheGainAfterAReturn) {
  ChoiceRule rule({"fifo", "srtf"}, kQuick);
  for (int i = 0; i < 40; ++i) rule.add_forecast({100, 92}, i);
  ASSERT_EQ(rule.chosen_policy(), 1u);
  const PolicySwitch made = rule.return_to_first(120, 100, 40);
  EXPECT_TRUE(made.is_return);
  EXPECT_EQ(made.from, "srtf");
  EXPECT_EQ(made.to, "fifo");
  EXPECT_EQ(made.forecast_from, 120);
  EXPECT_EQ(made.forecast_to, 100);
  EXPECT_EQ(rule.chosen_policy(), 0u);
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(rule.add_forecast({100, 92}, 41 + i)) << i;
  for (int i = 0; i < 200; ++i) rule.add_forecast({100, 80}, 241 + i);
  EXPECT_EQ(rule.chosen_policy(), 1u);
  EXPECT_EQ(rule.switches().size(), 3u);
}

}  // namespace
}  // namespace orrery::sim
