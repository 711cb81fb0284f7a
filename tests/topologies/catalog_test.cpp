#include "topologies/catalog.hpp"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/schema/yaml_loader.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace {

TEST(Catalog, HasThePromisedModels) {
  EXPECT_EQ(gpu_names(), (std::vector<std::string>{
                             "A100-40GB", "A100-80GB", "A800", "H100", "H100-96GB-HBM2e-500W",
                             "H800", "H200", "B200", "B300", "GB200", "GB300", "MI300X",
                             "MI325X", "MI350X", "MI355X", "TPU-v5e", "TPU-v5p", "TPU-v6e",
                             "TPU-7x", "V100-16GB", "V100-32GB"}));
  EXPECT_EQ(
      preset_names(),
      (std::vector<std::string>{
          "dgx-a100", "dgx-a100-40gb", "a100-40gb-roce", "a100-80gb-roce", "a100-80gb-roce-4x100",
          "jean-zay-a100", "dgx-h100", "h100-96gb-grand-teton", "aws-p4d", "aws-p5", "hgx-h800",
          "dgx-h200", "dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72", "tpu-v5e-pod",
          "tpu-v5p-pod", "tpu-v6e-pod"}));
}

/// Returns the message of a catalogue's file with defaults.
template <class Message>
Message loaded(const std::string& file) {
  Message message;
  load_yaml_file(std::string(ORRERY_SOURCE_DIR) + "/topologies/catalog/" + file, message);
  fill_defaults(message);
  return message;
}

TEST(Catalog, IsThatOfTheFiles) {
  EXPECT_EQ(gpu_catalog().SerializeAsString(), loaded<GpuCatalog>("gpus.yaml").SerializeAsString());
  EXPECT_EQ(kernel_catalog().SerializeAsString(),
            loaded<KernelCatalog>("kernels.yaml").SerializeAsString());
  EXPECT_EQ(preset_catalog().SerializeAsString(),
            loaded<PresetCatalog>("presets.yaml").SerializeAsString());
}

// Dense tensor rates double with each halving of the number format, on every model that has it.
TEST(Catalog, RatesAreDenseAndConsistent) {
  for (const GpuSpec& gpu : gpu_catalog().gpus()) {
    if (gpu.tf32() > 0) { EXPECT_NEAR(gpu.bf16() / gpu.tf32(), 2, 0.01) << gpu.name(); }
    if (gpu.fp8() > 0) { EXPECT_NEAR(gpu.fp8() / gpu.bf16(), 2, 0.01) << gpu.name(); }
    if (gpu.fp4() > 0) { EXPECT_GE(gpu.fp4() / gpu.fp8(), 2) << gpu.name(); }
    EXPECT_LT(gpu.idle_power(), gpu.max_power() / 4) << gpu.name();
    EXPECT_GE(gpu.source_size(), 1) << gpu.name();
  }
}

TEST(Catalog, EveryModelIsInExactlyOneKernelProfile) {
  std::multiset<std::string> listed;
  for (const KernelProfile& profile : kernel_catalog().profiles()) {
    listed.insert(profile.gpus().begin(), profile.gpus().end());
    listed.insert(profile.stands_in_for().begin(), profile.stands_in_for().end());
    EXPECT_GE(profile.source_size(), 1) << profile.name();
  }
  for (const std::string& name : gpu_names()) EXPECT_EQ(listed.count(name), 1u) << name;
  EXPECT_EQ(listed.size(), gpu_names().size());
  EXPECT_EQ(kernel_profile("unheard of").name(), kernel_catalog().fallback());
}

// A profile of which nothing was measured but a part says so; the first three are whole.
TEST(Catalog, ProfilesNameThePartsThatNothingMeasured) {
  for (const KernelProfile& profile : kernel_catalog().profiles()) {
    const bool whole =
        profile.name() == "A100" || profile.name() == "H100" || profile.name() == "B200";
    EXPECT_EQ(profile.transferred().empty(), whole) << profile.name();
    EXPECT_LE(profile.collective_start_low(), profile.collective_start()) << profile.name();
    EXPECT_GE(profile.collective_start_high(), profile.collective_start()) << profile.name();
  }
  EXPECT_EQ(kernel_profile("TPU-v5p").name(), "TPU");
  EXPECT_EQ(kernel_profile("MI350X").name(), "MI355X");
}

TEST(Catalog, EveryPresetBuildsAndIsNonBlocking) {
  for (const std::string& name : preset_names()) {
    Topology topology;
    topology.set_preset(name);
    const bool is_pod = name.starts_with("tpu-");
    topology.set_nodes(!is_pod ? 100 : name == "tpu-v5p-pod" ? 6144 : 256);
    resolve(topology, SourceMap());
    const Cluster cluster = build_cluster(topology, SourceMap());
    EXPECT_GT(cluster.price().per_gpu.value, 0) << name;
    const auto& shape = cluster.shape();
    if (shape.fabric == FabricKind::flat) continue;  // cannot block
    if (is_pod) {
      EXPECT_EQ(shape.fabric, FabricKind::torus) << name;
      continue;
    }
    EXPECT_GE(shape.spines * shape.spine_link_bandwidth.value,
              shape.nodes_per_unit * shape.nic_bandwidth.value)
        << name;
  }
}

// Two trays of one rack talk over NVLink, two racks over the NIC of the tray.
TEST(Catalog, Nvl72IsOneNvlinkDomain) {
  Topology topology;
  topology.set_preset("gb300-nvl72");
  topology.set_nodes(36);
  resolve(topology, SourceMap());
  const Cluster cluster = build_cluster(topology, SourceMap());
  EXPECT_EQ(cluster.gpus_per_domain(), 72u);
  std::vector<LinkId> inside, outside;
  cluster.route({0}, {71}, inside);
  cluster.route({0}, {72}, outside);
  EXPECT_EQ(inside, (std::vector{cluster.nvlink_out({0}), cluster.nvlink_in({71})}));
  EXPECT_EQ(outside, (std::vector{cluster.nic_out({0}, 0), cluster.nic_in({18}, 0)}));
}

}  // namespace
}  // namespace orrery
