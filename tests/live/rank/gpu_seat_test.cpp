#include "live/rank/gpu_seat.hpp"

#include <map>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/machine/cuda_module.hpp"

namespace orrery::live {
namespace {

std::map<std::string, std::string> told(const GpuShare& share) {
  return {share.environment.begin(), share.environment.end()};
}

TEST(GpuSeat, RanksGoRoundTheGpus) {
  EXPECT_EQ(share_of_gpus(3, 8, 8, "t", "f").device, 3u);
  EXPECT_EQ(share_of_gpus(3, 4, 2, "t", "f").device, 1u);
  EXPECT_THROW(share_of_gpus(0, 1, 0, "t", "f"), Error);
}

TEST(GpuSeat, OnlyRanksThatShareAGpuAreNodesOfTheirOwn) {
  const auto alone = told(share_of_gpus(1, 2, 2, "/lib/tuner.so", "/run/table"));
  EXPECT_EQ(alone.at("NCCL_TUNER_PLUGIN"), "/lib/tuner.so");
  EXPECT_EQ(alone.at("ORRERY_NCCL_TABLE"), "/run/table");
  EXPECT_FALSE(alone.contains("NCCL_HOSTID"));  // it would go over sockets instead of NVLink
  const auto one = told(share_of_gpus(0, 2, 1, "", ""));
  const auto other = told(share_of_gpus(1, 2, 1, "", ""));
  EXPECT_NE(one.at("NCCL_HOSTID"), other.at("NCCL_HOSTID"));
  EXPECT_EQ(one.at("NCCL_SOCKET_IFNAME"), "lo");
}

TEST(GpuSeat, WhatTheDriverDoesNotMeasureIsNotSent) {
  NvmlReading reading;
  reading.power = 321.5;
  const DeviceReading sent = to_wire(reading);
  EXPECT_EQ(sent.power(), 321.5);
  EXPECT_FALSE(sent.has_utilization() || sent.has_memory_bandwidth() || sent.has_memory_used());
}

TEST(GpuSeat, AMachineWithoutAGpuHasAReason) {
  if (probe_cuda().devices > 0) GTEST_SKIP() << "there is a GPU";
  try {
    GpuSeat seat(0, 1, 1, testing::TempDir());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_FALSE(error.message().empty());
  }
}

}  // namespace
}  // namespace orrery::live
