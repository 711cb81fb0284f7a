#include "live/run/metrics/cpu_meter.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(CpuMeter, CountsFromTheFirstWordOfAProcess) {
  CpuMeter meter(2);
  meter.hello(0, 0);
  meter.record_cpu_time(0, 100);
  EXPECT_EQ(meter.total(), 0);
  meter.record_cpu_time(0, 130);
  EXPECT_EQ(meter.so_far(), (std::vector<Nanos>{30, 0}));
}

TEST(CpuMeter, AReplacementIsAddedToWhatCameBefore) {
  CpuMeter meter(1);
  meter.hello(0, 0);
  meter.record_cpu_time(0, 100);
  meter.record_cpu_time(0, 130);
  meter.hello(0, 1);
  meter.record_cpu_time(0, 5);
  meter.record_cpu_time(0, 12);
  EXPECT_EQ(meter.total(), 37);
}

TEST(CpuMeter, ANewStreamOfTheSameProcessChangesNothing) {
  CpuMeter meter(1);
  meter.hello(0, 0);
  meter.record_cpu_time(0, 100);
  meter.hello(0, 0);
  meter.record_cpu_time(0, 130);
  EXPECT_EQ(meter.total(), 30);
}

TEST(CpuMeter, GoesOnFromWhatAnEarlierControllerKnew) {
  CpuMeter meter(2, {40, 50});
  meter.hello(1, 0);
  meter.record_cpu_time(1, 1000);
  meter.record_cpu_time(1, 1007);
  EXPECT_EQ(meter.so_far(), (std::vector<Nanos>{40, 57}));
}

}  // namespace
}  // namespace orrery::live
