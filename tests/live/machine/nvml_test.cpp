#include "live/machine/nvml.hpp"

#include <gtest/gtest.h>

#include "live/machine/machine.hpp"

namespace orrery::live {
namespace {

TEST(Nvml, ALibraryThatIsMissingOrIsNoNvmlGivesAReason) {
  std::string reason;
  EXPECT_EQ(Nvml::open("libno-such-nvml.so.1", reason), nullptr);
  EXPECT_NE(reason.find("the NVIDIA driver is not installed"), std::string::npos);
  EXPECT_EQ(Nvml::open("libc.so.6", reason), nullptr);
  EXPECT_NE(reason.find("lacks"), std::string::npos);
}

TEST(Nvml, ReadsWhatAGpuGivesInBaseUnits) {
  std::string reason;
  const auto nvml = Nvml::open(ORRERY_FAKE_NVML, reason);
  ASSERT_TRUE(nvml) << reason;
  EXPECT_EQ(nvml->driver_version(), "580.0.fake");
  ASSERT_EQ(nvml->gpus(), 2u);
  EXPECT_EQ(nvml->links_up(0), 3u);
  const NvmlReading reading = nvml->read(0);
  EXPECT_EQ(reading.name, "Fake GPU");
  EXPECT_EQ(reading.utilization, 0.75);
  EXPECT_EQ(reading.memory_bandwidth, 0.4);
  EXPECT_EQ(reading.memory_used, 3.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(reading.power.value(), 321.5);
  EXPECT_DOUBLE_EQ(reading.energy.value(), 9000.0);
  EXPECT_EQ(reading.temperature, 61.0);
  EXPECT_EQ(reading.sm_clock, 1.98e9);
  EXPECT_EQ(reading.memory_clock, 3.201e9);
  EXPECT_EQ(reading.uncorrected_ecc_errors, 2u);
  EXPECT_FALSE(reading.xid);
}

TEST(Nvml, WhatAGpuDoesNotGiveIsAbsentAndNotZero) {
  std::string reason;
  const auto nvml = Nvml::open(ORRERY_FAKE_NVML, reason);
  const NvmlReading reading = nvml->read(1);
  EXPECT_EQ(reading.memory_used, 3.0 * (1 << 30));
  EXPECT_FALSE(reading.utilization || reading.power || reading.temperature || reading.sm_clock ||
               reading.uncorrected_ecc_errors);
  EXPECT_EQ(nvml->links_up(1), 0u);
  EXPECT_TRUE(nvml->read(2).name.empty());
}

TEST(Nvml, ACriticalErrorIsKeptForItsGpu) {
  std::string reason;
  const auto nvml = Nvml::open(ORRERY_FAKE_NVML, reason);
  nvml->read(0);
  EXPECT_EQ(nvml->read(1).xid, 79u);
  EXPECT_EQ(nvml->read(1).xid, 79u);
  EXPECT_FALSE(nvml->read(0).xid);
}

TEST(Nvml, AGpuIsFoundByItsPlaceOnTheBus) {
  std::string reason;
  const auto nvml = Nvml::open(ORRERY_FAKE_NVML, reason);
  EXPECT_EQ(nvml->find("0000:18:00.0"), 1u);
  EXPECT_FALSE(nvml->find("0000:99:00.0"));
}

TEST(Nvml, SamplesHaveTheNamesAndUnitsOfDcgm) {
  std::string reason;
  const auto nvml = Nvml::open(ORRERY_FAKE_NVML, reason);
  std::string text;
  for (const auto& [name, value] : dcgm_fields(nvml->read(0))) {
    text += name + " " + std::to_string(value) + "\n";
  }
  EXPECT_EQ(text,
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL 2.000000\n"
            "DCGM_FI_DEV_FB_USED 3072.000000\n"
            "DCGM_FI_DEV_GPU_TEMP 61.000000\n"
            "DCGM_FI_DEV_GPU_UTIL 75.000000\n"
            "DCGM_FI_DEV_MEM_CLOCK 3201.000000\n"
            "DCGM_FI_DEV_MEM_COPY_UTIL 40.000000\n"
            "DCGM_FI_DEV_POWER_USAGE 321.500000\n"
            "DCGM_FI_DEV_SM_CLOCK 1980.000000\n"
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 9000000.000000\n");
  EXPECT_TRUE(dcgm_fields({}).empty());
}

TEST(Nvml, TheMachineCountsLinksThroughIt) {
  const NvLinks links = probe_nvlinks(ORRERY_FAKE_NVML);
  EXPECT_EQ(links.reason, "");
  EXPECT_EQ(links.driver, "580.0.fake");
  EXPECT_EQ(links.active, (std::vector<std::uint32_t>{3, 0}));
}

}  // namespace
}  // namespace orrery::live
