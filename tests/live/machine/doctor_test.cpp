#include "live/machine/doctor.hpp"

#include <nlohmann/json.hpp>

#include "tests/live/fake_sys.hpp"

namespace orrery::live {
namespace {

TEST(Doctor, EverythingMissingHasAReasonAndAUse) {
  FakeSys sys;
  const Diagnosis found = diagnose("/no/such/folder", sys.path());
  EXPECT_FALSE(found.is_complete());
  for (const Finding& finding : found.findings) {
    EXPECT_FALSE(finding.detail.empty()) << finding.name;
    EXPECT_FALSE(finding.needed.empty()) << finding.name;
  }
  EXPECT_NE(print_text(found).find("missing  orrery-sim: not in /no/such/folder"),
            std::string::npos);
}

TEST(Doctor, NothingMissingIsComplete) {
  Diagnosis found;
  found.findings = {{"a", true, "here", "b"}};
  EXPECT_TRUE(found.is_complete());
  found.findings.push_back({"c", false, "not here", "d"});
  EXPECT_FALSE(found.is_complete());
}

TEST(Doctor, SamplesOfTheDriverAreShownUnderTheirDcgmNames) {
  Diagnosis found;
  NvmlReading& reading = found.nvlinks.readings.emplace_back();
  reading.name = "H200";
  reading.power = 700;
  EXPECT_NE(print_text(found).find("GPU 0 (H200): DCGM_FI_DEV_POWER_USAGE=700"), std::string::npos);
  const auto json = nlohmann::json::parse(print_json(found));
  EXPECT_EQ(json["gpu_samples"][0]["DCGM_FI_DEV_POWER_USAGE"], 700);
}

TEST(Doctor, TheMachineIsPrintedAsFoundInBothForms) {
  FakeSys sys;
  sys.pci("0000:17:00.0", "0x030200", "0x10de");
  sys.file("class/net/eth0/operstate", "up");
  sys.file("class/net/eth0/speed", "25000");
  const Diagnosis found = diagnose("/no/such/folder", sys.path());
  const std::string text = print_text(found);
  EXPECT_NE(text.find("NVIDIA: 0000:17:00.0, 32.0 GT/s PCIe x16, NUMA node 1"), std::string::npos)
      << text;
  EXPECT_NE(text.find("eth0: up, 25 Gbps"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(print_json(found));
  EXPECT_EQ(json["gpus"][0]["pci"]["lanes"], 16);
  EXPECT_EQ(json["network_cards"][0]["bits_per_second"], 25e9);
  EXPECT_EQ(json["complete"], false);
}

}  // namespace
}  // namespace orrery::live
