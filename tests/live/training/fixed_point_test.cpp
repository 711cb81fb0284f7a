#include "live/training/fixed_point.hpp"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery::live {
namespace {

std::vector<std::vector<float>> terms(std::size_t count, std::size_t size) {
  Rng rng(7);
  std::vector<std::vector<float>> out(count, std::vector<float>(size));
  for (auto& term : out) {
    for (float& value : term) {
      value = static_cast<float>(rng.normal() * std::exp2(rng.uniform() * 30 - 20));
    }
  }
  return out;
}

TEST(FixedPointSum, NoOrderAndNoDivisionOfTheTermsChangesABit) {
  constexpr std::size_t kSize = 300;
  auto all = terms(24, kSize);
  FixedPointSum whole(kSize);
  for (const auto& term : all) whole.add(term);
  std::vector<float> expected(kSize);
  whole.store(expected);
  std::vector<float> plain(kSize, 0.0F);
  for (std::size_t parts = 1; parts <= 5; ++parts) {
    std::rotate(all.begin(), all.begin() + 7, all.end());
    std::vector<FixedPointSum> ranks(parts, FixedPointSum(kSize));
    for (std::size_t i = 0; i < all.size(); ++i) ranks[i * i % parts].add(all[i]);
    for (std::size_t part = 1; part < parts; ++part) {
      for (std::size_t i = 0; i < kSize; ++i) ranks[0].units()[i] += ranks[part].units()[i];
    }
    std::vector<float> sum(kSize);
    ranks[0].store(sum);
    EXPECT_EQ(sum, expected) << parts << " parts";
  }
  double error = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    double exact = 0;
    for (const auto& term : all) exact += static_cast<double>(term[i]);
    error = std::max(error, std::abs(exact - expected[i]) / std::max(1.0, std::abs(exact)));
  }
  EXPECT_LT(error, 1e-7);
}

TEST(FixedPointSum, WhatDoesNotFitIsRefused) {
  FixedPointSum sum(2);
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(sum.add(std::vector<float>{1, not_a_number}), Error);
  EXPECT_THROW(sum.add(std::vector<float>{2e5F, 1}), Error);
  sum.clear();
  sum.add(std::vector<float>{FixedPointSum::kLargestTerm, -0.5F});
  std::vector<float> out(2);
  sum.store(out);
  EXPECT_EQ(out, (std::vector<float>{FixedPointSum::kLargestTerm, -0.5F}));
}

}  // namespace
}  // namespace orrery::live
