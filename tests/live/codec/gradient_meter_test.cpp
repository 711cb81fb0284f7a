#include "live/codec/gradient_meter.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery::live {
namespace {

TEST(GradientMeter, APassHasTheBytesOfAllBucketsAndTheTransferOfTheLargestOne) {
  GradientMeter meter;
  meter.begin_pass();
  meter.add_bucket({.count = 1000, .issued_s = 1, .ended_s = 9, .sent_bytes = 1}, 2);
  meter.begin_pass();
  meter.add_bucket({.count = 100,
                    .issued_s = 11,
                    .ended_s = 13,
                    .begun_s = 11.5,
                    .done_s = 12,
                    .sent_bytes = 400},
                   2);
  meter.add_bucket({.count = 20,
                    .issued_s = 12.5,
                    .ended_s = 14,
                    .begun_s = 13,
                    .done_s = 13.5,
                    .sent_bytes = 80},
                   2);
  const GradientExchange pass = meter.drain_exchange();
  EXPECT_EQ(pass.bytes, 480);
  EXPECT_EQ(pass.issued_s, 12.5) << "of the bucket that was called last";
  EXPECT_EQ(pass.ended_s, 14);
  EXPECT_EQ(pass.begun_s, 11.5) << "of the largest bucket";
  EXPECT_EQ(pass.done_s, 12);
  EXPECT_EQ(pass.sent_bytes, 400);
  EXPECT_TRUE(std::isnan(pass.variance));
  EXPECT_EQ(meter.drain_exchange().bytes, 0) << "no pass since the last call";
}

TEST(GradientMeter, TheVarianceIsThatOfTheMeanGradients) {
  GradientMeter meter;
  meter.begin_pass();
  // Two ranks with the gradients (2, 0) and (0, 2), divided by 2 before the sum (1, 1): means of
  // squares 4 and 2.
  meter.add_bucket({.count = 1, .own_square = 1, .sum_square = 1}, 2);
  meter.add_bucket({.count = 1, .own_square = 0, .sum_square = 1}, 2);
  EXPECT_DOUBLE_EQ(meter.drain_exchange().variance, 1);
  meter.begin_pass();
  meter.add_bucket({.count = 1, .own_square = 1, .sum_square = 1}, 2);
  meter.add_bucket({.count = 1}, 2);  // not measured
  EXPECT_TRUE(std::isnan(meter.drain_exchange().variance));
  meter.begin_pass();
  meter.add_bucket({.count = 1, .own_square = INFINITY, .sum_square = INFINITY}, 2);
  EXPECT_TRUE(std::isnan(meter.drain_exchange().variance));
}

TEST(GradientMeter, SquaresAreWantedInEveryEighthPassOfAMeasuredRun) {
  GradientMeter meter;
  int wanted = 0;
  for (int pass = 0; pass < 16; ++pass) {
    meter.begin_pass();
    EXPECT_FALSE(meter.wants_squares());
  }
  meter.start_measuring();
  EXPECT_TRUE(meter.is_measuring());
  for (int pass = 0; pass < 16; ++pass) {
    meter.begin_pass();
    wanted += meter.wants_squares() ? 1 : 0;
  }
  EXPECT_EQ(wanted, 2);
}

}  // namespace
}  // namespace orrery::live
