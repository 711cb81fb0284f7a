#include "traces/jobs/cluster_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ClusterLog, HostLists) {
  EXPECT_THAT(expand_host_list("gpu[001-003,7],login"),
              ElementsAre("gpu001", "gpu002", "gpu003", "gpu7", "login"));
  EXPECT_THAT(expand_host_list("r[1-2]n"), ElementsAre("r1n", "r2n"));
  for (const char* const wrong : {"", "a[", "a]1[", "a[3-1]", "a[x]", "a[]", "a[1-2]b[3]",
                                  "a[1-4000000000]", "a[0-131072]"}) {
    EXPECT_THAT(expand_host_list(wrong), IsEmpty()) << wrong;
  }
}

const std::string kConf = R"(# our cluster
ClusterName=lab
NodeName=DEFAULT State=UNKNOWN
NodeName=gpu[001-016] CPUs=128 RealMemory=1024000 Gres=gpu:a100:8(S:0-1) State=UNKNOWN
nodename=old1 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 Gres=gpu:2,nvme:4   # aged
NodeName=login RealMemory=64000
PartitionName=main Nodes=gpu[001-016] Default=YES
)";

TEST(ClusterLog, SlurmConf) {
  const std::vector<NodeRecord> nodes = parse_cluster_log("slurm.conf", kConf);
  ASSERT_EQ(nodes.size(), 18u);
  EXPECT_EQ(nodes[15].name, "gpu016");
  EXPECT_EQ(nodes[15].gpus, 8u);
  EXPECT_EQ(nodes[15].model, "a100");
  EXPECT_EQ(nodes[15].cpu_milli, 128'000);
  EXPECT_EQ(nodes[15].memory_mib, 1'024'000);
  EXPECT_EQ(nodes[16].gpus, 2u);
  EXPECT_EQ(nodes[16].model, "");
  EXPECT_EQ(nodes[16].cpu_milli, 64'000);
  EXPECT_EQ(nodes[17].gpus, 0u);
}

TEST(ClusterLog, KubernetesNodes) {
  const std::vector<NodeRecord> nodes = parse_cluster_log("nodes.json", R"({
"apiVersion": "v1", "items": [
  {"kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "H100"}},
   "status": {"capacity": {"cpu": "192", "memory": "2Ti", "nvidia.com/gpu": "8"}}},
  {"kind": "Node", "metadata": {"name": "control"}, "status": {"capacity": {"cpu": "8"}}}]})");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].gpus, 8u);
  EXPECT_EQ(nodes[0].model, "H100");
  EXPECT_EQ(nodes[0].cpu_milli, 192'000);
  EXPECT_EQ(nodes[1].gpus, 0u);
}

std::string cluster_complaint(const std::string& text) {
  try {
    parse_cluster_log("f", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

TEST(ClusterLog, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_THAT(cluster_complaint("# nothing\n"), HasSubstr("names no node with GPUs"));
  EXPECT_THAT(cluster_complaint("\nNodeName=a[1-\n"), HasSubstr("f:2:1"));
  EXPECT_THAT(cluster_complaint("NodeName=a CPUs=many\n"), HasSubstr("cpus is 'many'"));
  EXPECT_THAT(cluster_complaint("NodeName=a Gres=gpu:129\n"), HasSubstr("over 128 GPUs"));
  EXPECT_THAT(cluster_complaint("{\"items\": ["), HasSubstr("text that is not JSON"));
}

}  // namespace
}  // namespace orrery
