#include "live/codec/power_sgd.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/live/codec/all_rules.hpp"

namespace orrery::live {
namespace {

TEST(PowerSgdCodec, AMatrixOfTheRankIsReproduced) {
  constexpr std::size_t kSide = 40;
  std::vector<float> values(kSide * kSide);
  Rng rng(4);
  std::vector<double> a(2 * kSide), b(2 * kSide);
  for (double& each : a) each = rng.normal();
  for (double& each : b) each = rng.normal();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(a[i / kSide] * b[i % kSide] +
                                   a[kSide + i / kSide] * b[kSide + i % kSide]);
  }
  const auto codec = make_codec({.codec = Codec::power_sgd, .parameter = 2});
  CodecState state;
  std::vector<float> decoded(values.size());
  codec->decode_values(encoded(*codec, values, state), decoded);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(decoded[i], values[i], 1e-4);
}

TEST(PowerSgdCodec, TheLeftFactorIsOrthonormalAndDependentColumnsVanish) {
  const FactorShape shape({.codec = Codec::power_sgd, .parameter = 3}, 100);
  std::vector<float> left(shape.left_size());
  Rng rng(9);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    left[i * 3] = static_cast<float>(rng.normal());
    left[i * 3 + 1] = static_cast<float>(rng.normal());
    left[i * 3 + 2] = 2 * left[i * 3];
  }
  orthonormalise(shape, left);
  const auto dot = [&](std::size_t p, std::size_t q) {
    double sum = 0;
    for (std::size_t i = 0; i < shape.rows; ++i) sum += double{left[i * 3 + p]} * left[i * 3 + q];
    return sum;
  };
  EXPECT_NEAR(dot(0, 0), 1, 1e-5);
  EXPECT_NEAR(dot(1, 1), 1, 1e-5);
  EXPECT_NEAR(dot(0, 1), 0, 1e-5);
  EXPECT_EQ(dot(2, 2), 0);
}

TEST(PowerSgdCodec, RepeatedCallsFindTheLargestDirections) {
  const std::vector<float> values = gradient_like(60 * 60, Rng(8));
  const auto codec =
      make_codec({.codec = Codec::power_sgd, .parameter = 4, .error_feedback = false});
  CodecState state;
  std::vector<float> decoded(values.size());
  const auto error = [&] {
    codec->decode_values(encoded(*codec, values, state), decoded);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += std::pow(decoded[i] - values[i], 2);
    return sum;
  };
  const double first = error();
  double last = first;
  for (int i = 0; i < 10; ++i) last = error();
  EXPECT_LT(last, first);
}

}  // namespace
}  // namespace orrery::live
