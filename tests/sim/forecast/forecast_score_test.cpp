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
  EXPECT_EQ(score.resolve_job({1}, s(800)).size(), 1u);
  EXPECT_EQ(score.resolve_job({1}, s(800)).size(), 0u);
  const std::vector<ScoreRow> rows = score.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].horizon, "1 min");
  EXPECT_EQ(rows[0].median_error_s, 5);
  EXPECT_EQ(rows[0].coverage80, 1);
  EXPECT_EQ(rows[1].horizon, "15 min");
  EXPECT_EQ(rows[1].median_error_s, 200);
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

/// After 400 jobs whose errors are small, those of 200 jobs are four times as large.
TEST(ForecastScore, TheIntervalsFollowErrorsThatGrow) {
  ForecastScore score;
  Rng rng(5);
  int in80 = 0, in95 = 0;
  for (std::uint32_t i = 0; i < 600; ++i) {
    const Nanos made = s(1000) * i;
    const std::vector<Nanos> samples(24, made + s(200));
    const InstantForecast forecast = score.forecast(samples, made);
    score.add({i}, forecast, samples);
    const Nanos actual = made + s(200) + to_nanos((i < 400 ? 10 : 40) * rng.normal());
    if (i >= 500 && actual >= forecast.low80 && actual <= forecast.high80) ++in80;
    if (i >= 500 && actual >= forecast.low95 && actual <= forecast.high95) ++in95;
    score.resolve_job({i}, actual);
  }
  EXPECT_NEAR(in80, 80, 8);
  EXPECT_NEAR(in95, 95, 4);
}

/// Before any error is known, 80% and 95% of the truths are inside the intervals of 24 samples.
TEST(ForecastScore, TheIntervalsOfFewSamplesAreWideEnough) {
  Rng rng(5);
  int in80 = 0, in95 = 0;
  constexpr int kCases = 4000;
  for (int i = 0; i < kCases; ++i) {
    std::vector<Nanos> samples;
    for (int k = 0; k < 24; ++k) samples.push_back(s(1000) + to_nanos(10 * rng.normal()));
    std::sort(samples.begin(), samples.end());
    const InstantForecast made = ForecastScore().forecast(samples, 0);
    const Nanos actual = s(1000) + to_nanos(10 * rng.normal());
    in80 += actual >= made.low80 && actual <= made.high80;
    in95 += actual >= made.low95 && actual <= made.high95;
  }
  EXPECT_NEAR(in80, 0.80 * kCases, 0.02 * kCases);
  EXPECT_NEAR(in95, 0.95 * kCases, 0.02 * kCases);
}

/// Ten jobs came as forecast, twenty are overdue by a time ahead: the next interval reaches so far.
TEST(ForecastScore, OverdueForecastsWidenTheIntervals) {
  ForecastScore score;
  const std::vector<Nanos> samples{s(198), s(199), s(200), s(201), s(202)};
  for (std::uint32_t i = 0; i < 30; ++i) score.add({i}, score.forecast(samples, 0), samples);
  for (std::uint32_t i = 0; i < 10; ++i) score.resolve_job({i}, s(200));
  std::vector<Nanos> later;
  for (const Nanos each : samples) later.push_back(each + s(400));
  EXPECT_GT(score.forecast(later, s(400)).high80, s(790));
}

/// A job that never starts has as much weight as any other job, also after 2,000 forecasts.
TEST(ForecastScore, OneOverdueJobDoesNotSetTheIntervals) {
  ForecastScore score;
  const auto samples = [](Nanos made) {
    std::vector<Nanos> out;
    for (int k = 0; k < 24; ++k) out.push_back(made + s(188 + k));
    return out;
  };
  for (std::uint32_t i = 1; i <= 500; ++i) {
    score.add({i}, score.forecast(samples(0), 0), samples(0));
    score.resolve_job({i}, s(200));
  }
  for (int i = 0; i < 2000; ++i) score.add({0}, score.forecast(samples(s(i)), s(i)), samples(s(i)));
  EXPECT_LT(score.forecast(samples(s(9000)), s(9000)).high80, s(9300));
}

/// A job that waits for a month has as much memory as one that waits for a day, and its score
/// counts all of its forecasts.
TEST(ForecastScore, OfOneJobForecastsAtEqualDistancesAreKept) {
  ForecastScore score;
  const std::vector<Nanos> samples{s(198), s(199), s(200), s(201), s(202)};
  for (int i = 0; i < 1000; ++i) {
    std::vector<Nanos> now = samples;
    for (Nanos& each : now) each += s(10 * i);
    score.add({0}, score.forecast(now, s(10 * i)), now);
  }
  const std::vector<InstantForecast> kept = score.resolve_job({0}, s(10000));
  ASSERT_GE(kept.size(), 32u);
  ASSERT_LE(kept.size(), 64u);
  const Nanos distance = kept[1].made - kept[0].made;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].made, static_cast<Nanos>(i) * distance);
  }
  const ScoreRow row = score.rows().back();
  EXPECT_EQ(row.forecasts, 1000u);
  EXPECT_NEAR(row.median_error_s, 5000 - 200, 200);
}

TEST(ForecastScore, OfManyJobsFewForecastsAreKept) {
  ForecastScore score;
  const std::vector<Nanos> samples{s(198), s(200), s(202)};
  for (int i = 0; i < 10; ++i) {
    for (std::uint32_t job = 0; job < 30000; ++job) {
      score.add({job}, {.made = s(i), .median = s(200)}, samples);
    }
  }
  EXPECT_LE(score.resolve_job({29999}, s(200)).size(), 8u);
  EXPECT_EQ(score.rows().back().forecasts, 10u);
}

TEST(ForecastScore, ErrorsAreCountedByValue) {
  ForecastScore score;
  for (std::uint32_t i = 0; i < 101; ++i) {
    const std::vector<Nanos> samples{s(1000), s(1000), s(1000)};
    score.add({i}, score.forecast(samples, 0), samples);
    score.resolve_job({i}, s(1000) + s(i) * 1234567);
  }
  const ScoreRow row = score.rows().back();
  EXPECT_NEAR(row.median_error_s, 50.0 * 1234567, 50.0 * 1234567 / 2000);
  EXPECT_DOUBLE_EQ(row.within_minute, 1 / 101.0);
}

/// The distance of early samples does not lead to an instant before the forecast.
TEST(ForecastScore, NoIntervalBeginsBeforeTheForecast) {
  const std::vector<Nanos> samples{s(1001), s(1050), s(1400), s(1500), s(1600)};
  const InstantForecast made = ForecastScore().forecast(samples, s(1000));
  EXPECT_GE(made.low95, s(1000));
  EXPECT_GE(made.low80, s(1000));
  EXPECT_GT(made.high95, s(1600));
}

}  // namespace
}  // namespace orrery::sim
