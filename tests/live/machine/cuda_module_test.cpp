#include "live/machine/cuda_module.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

#ifdef ORRERY_CUDA_MODULE
TEST(CudaModule, LoadsAndFindsADeviceOrSaysWhyThereIsNone) {
  const CudaProbe probe = probe_cuda(ORRERY_CUDA_MODULE);
  EXPECT_TRUE(probe.module_loaded) << probe.reason;
  EXPECT_EQ(probe.devices > 0, probe.reason.empty()) << probe.reason;
  EXPECT_FALSE(probe.runtime_version.empty());
  EXPECT_EQ(probe.list.size(), probe.devices);
}
#else
TEST(CudaModule, IsLeftOutOnlyWhereTheToolkitIsMissing) {
  const std::filesystem::path toolkit = "/usr/local/cuda/include";
  std::ifstream header(toolkit / "cuda.h");
  const std::string text{std::istreambuf_iterator<char>(header), {}};
  const bool new_enough = text.find("#define CUDA_VERSION 13") != std::string::npos;
  EXPECT_FALSE(new_enough && std::filesystem::exists(toolkit / "nccl.h"));
}
#endif

TEST(CudaModule, AMissingModuleIsAReasonAndNoError) {
  const CudaProbe probe = probe_cuda("/no/such/module.so");
  EXPECT_FALSE(probe.module_loaded);
  EXPECT_EQ(probe.devices, 0u);
  EXPECT_NE(probe.reason.find("liborrery_cuda.so"), std::string::npos);
}

TEST(CudaModule, AFileThatIsNoModuleIsAReasonAndNoError) {
  const CudaProbe probe = probe_cuda(ORRERY_SOURCE_DIR "/CMakeLists.txt");
  EXPECT_FALSE(probe.module_loaded);
  EXPECT_NE(probe.reason.find("cannot load"), std::string::npos);
}

}  // namespace
}  // namespace orrery::live
