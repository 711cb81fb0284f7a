#include "core/random.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace orrery {
namespace {

TEST(Rng, IsSplitMix64) {
  // The first outputs of the published reference implementation for seed 1234567.
  Rng rng(1234567);
  EXPECT_EQ(rng.next(), 6457827717110365317ull);
  EXPECT_EQ(rng.next(), 3203168211198807973ull);
  EXPECT_EQ(rng.next(), 9817491932198370423ull);
  EXPECT_EQ(rng.next(), 4593380528125082431ull);
  EXPECT_EQ(rng.next(), 16408922859458223821ull);
}

TEST(Rng, SameSeedSameStream) {
  Rng a(5), b(5), c(6);
  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    const auto value = a.next();
    EXPECT_EQ(value, b.next());
    equal += value == c.next() ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

TEST(Rng, UniformStaysInRangeWithTheRightMoments) {
  Rng rng(1);
  constexpr int kDraws = 200'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

TEST(Rng, BelowIsEven) {
  Rng rng(2);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts.at(rng.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rng.below(1), 0u);
}

TEST(Rng, NormalHasMeanZeroAndVarianceOne) {
  Rng rng(3);
  constexpr int kDraws = 200'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
}

TEST(Rng, SplitsByNameAndNotByUse) {
  const Rng parent(9);
  Rng noise = parent.split_stream("noise"), again = parent.split_stream("noise"),
      faults = parent.split_stream("faults");
  const auto first = noise.next();
  EXPECT_EQ(first, again.next());
  EXPECT_NE(first, faults.next());
  EXPECT_EQ(parent.state(), 9u);
  Rng other_parent = Rng(10).split_stream("noise");
  EXPECT_NE(other_parent.next(), first);
}

}  // namespace
}  // namespace orrery
