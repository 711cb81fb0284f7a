#include "live/calibrate.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(Calibrate, MeasuresEverythingThatAProfileNeeds) {
  const MachineMeasurements measured = measure_machine({.quick = true, .ranks = {2}});
  EXPECT_GE(measured.products_size(), 4);
  for (const MachineMeasurements::Product& product : measured.products()) {
    EXPECT_GT(product.seconds(), 0);
  }
  EXPECT_GT(measured.copy_rate(), 1e6);
  EXPECT_GT(measured.memory(), 1e6);
  EXPECT_GE(measured.cores(), 1u);
  EXPECT_GT(measured.update(), 0);
  ASSERT_GE(measured.sums_size(), 2);
  for (const MachineMeasurements::Sum& sum : measured.sums()) {
    EXPECT_EQ(sum.ranks(), 2u);
    EXPECT_GT(sum.seconds(), 0);
    EXPECT_GT(sum.bytes(), 0);
  }
  ASSERT_EQ(measured.codecs_size(), 6) << "every codec but none";
  for (const CodecRate& rate : measured.codecs()) {
    EXPECT_GT(rate.encode(), 0) << rate.codec();
    EXPECT_GT(rate.decode(), 0) << rate.codec();
  }
}

}  // namespace
}  // namespace orrery::live
