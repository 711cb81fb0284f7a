#include "sim/forecast/forecast_score.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos s(std::int64_t seconds) { return seconds * kNanosPerSecond; }

TEST(ForecastScore, ErrorsByHorizon) {
  ForecastScore score;
  const std::vector<Nanos> soon{s(20), s(30), s(40)}, late{s(500), s(600), s(700)};
  score.add({0}, score.forecast(soon, 0), soon);
  score.add({1}, score.forecast(late, 0), late);
  EXPECT_EQ(score.resolve_job({0}, s(35)).size(), 1u);
  EXPECT_EQ(score.resolve_job({1}, s(720)).size(), 1u);
  EXPECT_EQ(score.resolve_job({1}, s(720)).size(), 0u);
  const std::vector<ScoreRow> rows = score.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].horizon, "1 min");
  EXPECT_EQ(rows[0].median_error_s, 5);
  EXPECT_EQ(rows[0].coverage80, 1);
  EXPECT_EQ(rows[1].horizon, "15 min");
  EXPECT_EQ(rows[1].median_error_s, 120);
  EXPECT_EQ(rows[1].coverage95, 0);
  EXPECT_EQ(rows[2].horizon, "all");
  EXPECT_EQ(rows[2].within_minute, 0.5);
  EXPECT_EQ(rows[2].within_ten_minutes, 1);
}

TEST(ForecastScore, ForecastsBeyondTheHorizonAreCounted) {
  ForecastScore score;
  const std::vector<Nanos> never{s(5), kNever, kNever};
  score.add({0}, score.forecast(never, 0), never);
  EXPECT_EQ(score.beyond(), 1u);
  EXPECT_TRUE(score.resolve_job({0}, s(9)).empty());
}

/// Samples that are far too narrow: after some errors the intervals cover what they claim.
TEST(ForecastScore, EarlierErrorsWidenTheIntervals) {
  ForecastScore score;
  Rng rng(3);
  for (std::uint32_t i = 0; i < 4000; ++i) {
    const Nanos made = s(1000) * i;
    std::vector<Nanos> samples;
    for (int k = 0; k < 24; ++k) samples.push_back(made + s(200) + to_nanos(2 * rng.normal()));
    std::sort(samples.begin(), samples.end());
    score.add({i}, score.forecast(samples, made), samples);
    score.resolve_job({i}, made + s(200) + to_nanos(30 * rng.normal()));
  }
  const ScoreRow row = score.rows().back();
  EXPECT_NEAR(row.coverage80, 0.80, 0.03);
  EXPECT_NEAR(row.coverage95, 0.95, 0.02);
}

}  // namespace
}  // namespace orrery::sim
