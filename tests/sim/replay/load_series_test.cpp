#include "sim/replay/load_series.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

constexpr Nanos seconds(std::int64_t count) { return count * kNanosPerSecond; }
const auto kHalf = [] { return 0.5; };

TEST(LoadSeries, MeansOverMinutes) {
  LoadSeries series(seconds(1000));
  series.hold_load({.busy_gpus = 4, .waiting_jobs = 0, .waiting_gpus = 0}, seconds(1030), kHalf);
  series.hold_load({.busy_gpus = 8, .waiting_jobs = 2, .waiting_gpus = 6}, seconds(1090), kHalf);
  const auto all = series.intervals();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_DOUBLE_EQ(all[0].busy_gpus, 6);
  EXPECT_DOUBLE_EQ(all[0].waiting_jobs, 1);
  EXPECT_DOUBLE_EQ(all[0].fragmentation, 0.5);
  EXPECT_DOUBLE_EQ(all[1].busy_gpus, 8) << "the last one may be shorter";
  EXPECT_DOUBLE_EQ(series.mean().busy_gpus, (4.0 * 30 + 8 * 60) / 90);
  EXPECT_EQ(series.most_waiting(), 2u);
}

TEST(LoadSeries, AYearFitsAndItsMeanIsExact) {
  LoadSeries series;
  double work = 0;
  for (int hour = 1; hour <= 24 * 365; ++hour) {
    const double busy = hour % 17;
    work += busy;
    series.hold_load({.busy_gpus = busy, .waiting_jobs = 1, .waiting_gpus = 1},
                     seconds(hour * 3600), kHalf);
  }
  const auto all = series.intervals();
  EXPECT_LE(all.size(), LoadSeries::kMostIntervals);
  EXPECT_GT(all.size(), LoadSeries::kMostIntervals / 4);
  EXPECT_NEAR(series.mean().busy_gpus, work / (24 * 365), 1e-9);
  EXPECT_NEAR(series.mean().waiting_jobs, 1, 1e-9);
}

}  // namespace
}  // namespace orrery::sim
