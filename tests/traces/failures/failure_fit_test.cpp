// Failures learnt from a log, and the forecast of a later span.
#include "traces/failures/failure_fit.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace orrery {
namespace {

constexpr double kDay = 86400;

/// Failures at exponential gaps of 12 h on average, each 600 s on average; the nodes up to `lemons`
/// fail 20 times as often.
IncidentLog drawn_log(std::uint64_t seed, double days, std::uint32_t nodes, std::uint32_t lemons) {
  Rng rng(seed);
  IncidentLog log{.format = "csv", .length_s = days * kDay, .nodes = nodes};
  const double weight = nodes + 19.0 * lemons;
  for (double at = 0;;) {
    at -= 0.5 * kDay * std::log1p(-rng.uniform());
    if (at >= log.length_s) return log;
    const bool lemon = rng.uniform() * weight < 20.0 * lemons;
    Incident incident{.at_s = at, .cause = "x", .part = FailingPart::node};
    incident.index =
        static_cast<std::uint32_t>(lemon ? rng.below(lemons) : lemons + rng.below(nodes - lemons));
    incident.down_s = -600 * std::log1p(-rng.uniform());
    at += incident.down_s;
    log.incidents.push_back(incident);
  }
}

TEST(FailureFit, TimesOfAJobThatIsDownTwiceCountOnce) {
  IncidentLog log{.format = "csv", .length_s = 1000, .nodes = 4};
  for (const double at : {100.0, 150.0, 400.0}) {
    log.incidents.push_back({.at_s = at, .cause = "x", .part = FailingPart::job, .down_s = 100});
  }
  log.incidents.push_back({.at_s = 500, .cause = "hot", .part = FailingPart::gpu, .rate = 0.5});
  const FailureFit fit = learn_failures(log, 0, 1000, 4, 8);
  EXPECT_EQ(fit.up_s, 1000 - 150 - 100);
  EXPECT_EQ(fit.interruptions, 2u) << "the job was down at the second, and not at the slow GPU";
  ASSERT_EQ(fit.causes.size(), 2u);
  EXPECT_EQ(fit.causes[0].count, 3u);
  EXPECT_EQ(learn_failures(log, 140, 200, 4, 8).up_s, 0) << "down since before";
}

TEST(FailureFit, RatesHaveTheirGammaIntervals) {
  IncidentLog log{.format = "csv", .length_s = 100 * kDay, .nodes = 4};
  for (int i = 0; i < 40; ++i) {
    log.incidents.push_back(
        {.at_s = i * 2.0 * kDay, .cause = "x", .part = FailingPart::job, .down_s = 60});
  }
  const FailureFit fit = learn_failures(log, 0, 100 * kDay, 4, 8);
  EXPECT_NEAR(fit.causes[0].per_day.p10, 0.326, 2e-3);
  EXPECT_NEAR(fit.causes[0].per_day.p90, 0.490, 2e-3);
}

TEST(FailureFit, UnreliableNodesAreFoundAndReliableOnesAreNotAccused) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const IncidentLog with = drawn_log(seed, 180, 100, 2);
    const LemonFit found = learn_failures(with, 0, 180 * kDay, 100, 8).lemons;
    EXPECT_EQ(found.nodes, (std::vector<std::uint32_t>{0, 1})) << seed;
    EXPECT_NEAR(found.times, 20, 8) << seed;
    const IncidentLog without = drawn_log(seed, 180, 100, 0);
    EXPECT_EQ(learn_failures(without, 0, 180 * kDay, 100, 8).lemons.share, 0) << seed;
  }
}

TEST(FailureFit, TheSecondHalfLiesInTheIntervalsAsOftenAsTheySay) {
  int within_80 = 0, within_95 = 0;
  const int logs = 60;
  for (std::uint64_t seed = 1; seed <= logs; ++seed) {
    const IncidentLog log = drawn_log(seed, 120, 50, 0);
    const double half = 60 * kDay;
    const FailureForecast forecast =
        forecast_failures(learn_failures(log, 0, half, 50, 8), half, Rng(seed));
    const double goodput = learn_failures(log, half, 2 * half, 50, 8).goodput();
    const FitInterval& told = forecast.goodput;
    within_80 += goodput >= told.p10 && goodput <= told.p90 ? 1 : 0;
    within_95 += goodput >= told.p2_5 && goodput <= told.p97_5 ? 1 : 0;
    EXPECT_LT(told.p90 - told.p10, 0.02) << "no interval that always holds";
  }
  EXPECT_NEAR(within_80, 0.8 * logs, 3 * std::sqrt(logs * 0.16));
  EXPECT_GE(within_95, 0.85 * logs);
}

TEST(FailureFit, OnlyNodesAndTheirGpusAreOnANode) {
  EXPECT_EQ(node_of({.part = FailingPart::node, .index = 3}, 8), 3u);
  EXPECT_EQ(node_of({.part = FailingPart::gpu, .index = 17}, 8), 2u);
  EXPECT_EQ(node_of({.part = FailingPart::nic, .index = 17}, 8), std::nullopt);
  EXPECT_EQ(node_of({.part = FailingPart::node}, 8), std::nullopt) << "the log names no node";
}

}  // namespace
}  // namespace orrery
