#include "topologies/machine.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "topologies/builder.hpp"
#include "topologies/catalog.hpp"

namespace orrery {
namespace {

MachineProfile machine() {
  MachineProfile out;
  out.set_name("bench");
  out.add_source("by hand");
  *out.mutable_processor() = gpu_catalog().gpus(0);
  out.mutable_processor()->set_name("core");
  *out.mutable_kernels() = kernel_catalog().profiles(0);
  out.mutable_kernels()->set_nvlink_pair_loss(0);
  out.set_update(1e-9);
  for (const std::uint32_t ranks : {2u, 4u}) {
    RankLinks& links = *out.add_links();
    links.set_ranks(ranks);
    links.set_latency(1e-4 * ranks);
    links.set_bandwidth(1e9 / ranks);
    links.set_control(1e-3);
  }
  return out;
}

TEST(Machine, RanksStandOnOneNodeEach) {
  const Cluster cluster = build_cluster(machine_topology(machine(), 4), SourceMap{});
  EXPECT_EQ(cluster.gpus(), 4u);
  EXPECT_EQ(cluster.nodes(), 4u);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {3}).value, 4e-4);
  EXPECT_DOUBLE_EQ(cluster.shape().nic_bandwidth.value, 2.5e8);
}

TEST(Machine, TheNearestNumberOfRanksSpeaksForOthers) {
  EXPECT_EQ(links_among(machine(), 2).ranks(), 2u);
  EXPECT_EQ(links_among(machine(), 8).ranks(), 4u);
}

TEST(Machine, AWrittenProfileIsReadBackWhole) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("orrery-machine-" + std::to_string(getpid()) + ".yaml");
  const MachineProfile written = machine();
  std::ofstream(path) << to_yaml(written);
  const MachineProfile read = load_machine(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(read.SerializeAsString(), written.SerializeAsString());
}

TEST(Machine, AProfileWithoutLinksIsRefusedWithItsPlace) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("orrery-machine-bad-" + std::to_string(getpid()) + ".yaml");
  MachineProfile bad = machine();
  bad.clear_links();
  std::ofstream(path) << to_yaml(bad);
  EXPECT_THROW(load_machine(path.string()), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace orrery
