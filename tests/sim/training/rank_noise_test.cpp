#include "sim/training/rank_noise.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::sim {
namespace {

constexpr std::uint32_t kSteps = 4000;

TEST(RankNoise, QuantilesAreThoseOfTheNormalDistribution) {
  for (double p = 1e-9; p < 1; p = p < 0.001 ? p * 3 : p + 0.0007) {
    const double x = normal_quantile(p);
    EXPECT_NEAR(0.5 * std::erfc(-x / std::sqrt(2.0)) / p, 1, 1e-12) << p;
    if (p > 1e-4) {
      EXPECT_NEAR(normal_quantile(1 - p), -x, 1e-11) << p;
    }
  }
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-15);
  EXPECT_NEAR(normal_quantile(1e-20), -9.262340089798408, 1e-14);
}

TEST(RankNoise, OneOfTheRanksIsTheSlowestAndNoneIsSlower) {
  const RankNoise noise(0.05, 32, 7);
  std::vector<int> chosen(32);
  for (Step step = 0; step < kSteps; ++step) {
    const double slowest = noise.slowest(step, 3);
    int equal = 0;
    for (std::uint32_t rank = 0; rank < 32; ++rank) {
      const double each = noise.of_rank(step, 3, rank);
      EXPECT_LE(each, slowest);
      equal += each == slowest ? 1 : 0;
      chosen[rank] += each == slowest ? 1 : 0;
    }
    EXPECT_EQ(equal, 1);
  }
  for (const int times : chosen) EXPECT_NEAR(times, kSteps / 32.0, 60);  // 5 sigma
}

TEST(RankNoise, EachRankIsNormalWhicheverIsTheSlowest) {
  const double cv = 0.05;
  const RankNoise noise(cv, 8, 7);
  for (const std::uint32_t rank : {0u, 5u}) {
    double sum = 0, squares = 0, below = 0;
    for (Step step = 0; step < kSteps; ++step) {
      const double off = (noise.of_rank(step, 1, rank) - 1) / cv;
      sum += off;
      squares += off * off;
      below += off < -1 ? 1 : 0;
    }
    EXPECT_NEAR(sum / kSteps, 0, 0.08);  // 5 sigma
    EXPECT_NEAR(squares / kSteps, 1, 0.12);
    EXPECT_NEAR(below / kSteps, 0.158655, 0.03);
  }
}

TEST(RankNoise, RanksOfAReplicaVaryApartFromEachOther) {
  const RankNoise noise(1e-3, 16, 7);  // small enough that the least factor has no effect
  double product = 0;
  for (Step step = 0; step < kSteps; ++step) {
    product += (noise.of_rank(step, 1, 2) - 1) * (noise.of_rank(step, 1, 9) - 1) * 1e6;
  }
  EXPECT_NEAR(product / kSteps, 0, 0.08);
}

TEST(RankNoise, TheSlowestOfManyIsThatOfAsManyDraws) {
  // Means of the greatest of n standard normal values (Teichroew 1956).
  for (const auto& [ranks, mean] : std::vector<std::pair<std::uint32_t, double>>{
           {1, 0}, {2, 0.5641895835}, {8, 1.4236003060}, {20, 1.8674750597}}) {
    const RankNoise noise(0.01, ranks, 11);
    double sum = 0;
    for (Step step = 0; step < kSteps; ++step) sum += (noise.slowest(step, 0) - 1) / 0.01;
    EXPECT_NEAR(sum / kSteps, mean, 0.08) << ranks;
  }
}

TEST(RankNoise, DependsOnSeedStepAndPlaceAlone) {
  const RankNoise one(0.05, 4, 7), same(0.05, 4, 7), other(0.05, 4, 8);
  EXPECT_EQ(one.of_rank(5, 2, 3), same.of_rank(5, 2, 3));
  EXPECT_NE(one.of_rank(5, 2, 3), other.of_rank(5, 2, 3));
  EXPECT_NE(one.slowest(5, 2), one.slowest(6, 2));
  EXPECT_NE(one.slowest(5, 2), one.slowest(5, 1));
  EXPECT_EQ(RankNoise(1, 1, 7).slowest(9, 0), RankNoise(1, 1, 7).of_rank(9, 0, 0));
}

TEST(RankNoise, NobodyIsFasterThanATenthOfTheTime) {
  const RankNoise noise(1, 1, 3);
  double least = 1;
  for (Step step = 0; step < kSteps; ++step) least = std::min(least, noise.slowest(step, 0));
  EXPECT_EQ(least, 0.1);
}

}  // namespace
}  // namespace orrery::sim
