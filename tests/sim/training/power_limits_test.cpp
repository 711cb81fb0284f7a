#include "sim/training/power_limits.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos kHour = 3600 * kNanosPerSecond;

class PowerLimitsTest : public ::testing::Test {
 protected:
  PowerLimitsTest() : cluster_(make_cluster()) {}
  static Cluster make_cluster() {
    Topology topology;
    const SourceMap places = load_yaml("preset: dgx-h100\nnodes: 1250\n", "t.yaml", topology);
    resolve(topology, places);
    return build_cluster(topology, places);
  }
  PowerLimits limits(const std::string& text) const {
    PowerBudget budget;
    load_yaml(text, "b.yaml", budget);
    fill_defaults(budget);
    return {budget, &cluster_};
  }
  std::string refusal(const std::string& text) const {
    try {
      limits(text);
    } catch (const Error& error) {
      return error.message();
    }
    return "accepted";
  }
  Cluster cluster_;
};

const std::string kByDay = "{share: 80%, from: 8 h, until: 20 h, every: 24 h}";

TEST_F(PowerLimitsTest, WithoutLimitsGpusKeepTheirClock) {
  EXPECT_EQ(PowerLimits().clock_at(5), 1);
  EXPECT_EQ(PowerLimits().next_change(5), kNever);
}

TEST_F(PowerLimitsTest, ALimitByDayReturnsEveryDay) {
  const PowerLimits by_day = limits("limits: [" + kByDay + "]\n");
  const double clock = std::cbrt(((0.8 * 8400 - 2800) / 8 - 75) / 625);
  for (const Nanos day : {0, 1, 29}) {
    EXPECT_EQ(by_day.clock_at(day * 24 * kHour + 8 * kHour - 1), 1);
    EXPECT_NEAR(by_day.clock_at(day * 24 * kHour + 8 * kHour), clock, 1e-12);
    EXPECT_NEAR(by_day.clock_at(day * 24 * kHour + 20 * kHour - 1), clock, 1e-12);
    EXPECT_EQ(by_day.clock_at(day * 24 * kHour + 20 * kHour), 1);
  }
  EXPECT_EQ(by_day.next_change(0), 8 * kHour);
  EXPECT_EQ(by_day.next_change(8 * kHour), 20 * kHour);
  EXPECT_EQ(by_day.next_change(20 * kHour), 32 * kHour);
  EXPECT_EQ(by_day.next_change(100 * kHour), 104 * kHour);
}

TEST_F(PowerLimitsTest, TheLowestLimitHolds) {
  const PowerLimits both =
      limits("limits: [" + kByDay + ", {cause: grid, share: 60%, from: 10 h, until: 11 h}]\n");
  EXPECT_LT(both.clock_at(10 * kHour), both.clock_at(9 * kHour));
  EXPECT_EQ(both.clock_at(11 * kHour), both.clock_at(9 * kHour));
  EXPECT_EQ(both.next_change(8 * kHour), 10 * kHour);
  EXPECT_EQ(both.next_change(34 * kHour), 44 * kHour) << "the event of the grid was once";
}

TEST_F(PowerLimitsTest, FlatKeepsTheLowestLimitAndPauseStops) {
  const PowerLimits flat = limits("limits: [" + kByDay + "]\nspend: flat\n");
  const PowerLimits follow = limits("limits: [" + kByDay + "]\n");
  EXPECT_EQ(flat.clock_at(0), follow.clock_at(8 * kHour));
  EXPECT_EQ(flat.next_change(0), kNever);
  const PowerLimits pause = limits("limits: [" + kByDay + "]\nspend: pause\n");
  EXPECT_EQ(pause.clock_at(0), 1);
  EXPECT_EQ(pause.clock_at(8 * kHour), 0);
  EXPECT_EQ(pause.next_change(8 * kHour), 20 * kHour);
}

TEST_F(PowerLimitsTest, WattsAreThoseOfTheSite) {
  const double site = 1.25 * 1250 * 8400;
  EXPECT_EQ(limits("limits: [{power: 13125 kW}]\n").clock_at(0), 1) << site;
  EXPECT_LT(limits("limits: [{power: 13 MW}]\n").clock_at(0), 1);
}

TEST_F(PowerLimitsTest, ImpossibleLimitsAreRefused) {
  EXPECT_NE(refusal("limits: [{share: 30%}]\n").find("power.limits[0]"), std::string::npos);
  EXPECT_NE(refusal("limits: [{share: 50%}]\nspend: pause\n").find("raise the limit"),
            std::string::npos);
  EXPECT_NE(refusal("limits: [{share: 30%, until: 1 h}]\nspend: flat\n").find("raise the limit"),
            std::string::npos);
  EXPECT_EQ(refusal("limits: [{share: 30%, until: 1 h}]\n"), "accepted") << "it pauses for an hour";
  EXPECT_NE(refusal("limits: [{share: 50%, from: 2 h, until: 1 h}]\n").find("after 'from'"),
            std::string::npos);
  EXPECT_NE(refusal("limits: [{share: 50%, every: 1 h}]\n").find("found no end"),
            std::string::npos);
  EXPECT_NE(refusal("limits: [{share: 50%, until: 3 h, every: 1 h}]\n").find("shorter"),
            std::string::npos);
}

}  // namespace
}  // namespace orrery::sim
