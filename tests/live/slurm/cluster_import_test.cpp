#include "live/slurm/cluster_import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/live/slurm/recorded.hpp"
#include "traces/clusters/cluster_file.hpp"

namespace orrery::live {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ClusterFacts facts_of(const std::vector<SlurmNode>& nodes) {
  return node_facts("Slurm", {nodes.begin(), nodes.end()}, NodeMap(managed_nodes(nodes, {})));
}

TEST(ClusterImport, NodesAndTheOneGpuThatTheirTypesName) {
  std::vector<SlurmNode> nodes = parse_nodes(kNodesAnswer);
  EXPECT_EQ(nodes[1].gpu_type, "a100");
  EXPECT_EQ(facts_of(nodes).gpu, "") << "of 40 or 80 GB";
  nodes[1].gpu_type = "nvidia_a100-sxm4-80gb";
  const ClusterFacts facts = facts_of(nodes);
  EXPECT_EQ(facts.nodes, 3u);
  EXPECT_EQ(facts.gpus_per_node, 8u);
  EXPECT_EQ(facts.gpu, "A100-80GB");
  EXPECT_THAT(facts.read, ElementsAre(HasSubstr("3 nodes, at most 8 GPUs each (nvidia_a100")));
  EXPECT_THAT(facts.assumed, ElementsAre(HasSubstr("1 nodes with fewer GPUs"),
                                         HasSubstr("2 nodes that are down")));
}

TEST(ClusterImport, TypesThatNameNoneOrTwoGpus) {
  std::vector<SlurmNode> nodes = parse_nodes(kNodesAnswer);
  nodes[1].gpu_type = "nvidia_h100_80gb_hbm3";
  EXPECT_EQ(facts_of(nodes).gpu, "H100");
  nodes[0].gpu_type = "a100_40gb";
  const ClusterFacts mixed = facts_of(nodes);
  EXPECT_EQ(mixed.gpu, "");
  EXPECT_THAT(mixed.assumed.front(), HasSubstr("A100-40GB and H100"));
  nodes[0].gpu_type = nodes[1].gpu_type = "big";
  EXPECT_EQ(facts_of(nodes).gpu, "");
}

TEST(ClusterImport, SwitchesAboveTheFirstLevelRepeatNoNodes) {
  const std::string conf = topology_conf(
      "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
      "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
      "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\n");
  const ClusterFacts facts = parse_cluster_file(conf, "answer");
  EXPECT_EQ(facts.nodes_per_leaf, 2u);
  EXPECT_EQ(facts.nodes, 4u);
  EXPECT_EQ(topology_conf("No topology information available\n"), "");
}

TEST(ClusterImport, PlacedJobsThenWaitingOnesWithTheirLimits) {
  const QueuedJobs all = queued_jobs(parse_jobs(kSqueueAnswer), {});
  std::vector<std::string> ids;
  for (const TraceJob& job : all.jobs) ids.emplace_back(job.id.view());
  EXPECT_THAT(ids, ElementsAre("2", "5_1", "4", "12"));
  EXPECT_EQ(all.jobs[0].gpus, 5u);
  EXPECT_EQ(all.jobs[3].gpus, 6u);
  EXPECT_EQ(all.jobs[0].requested_s, 300.0);
  EXPECT_EQ(all.jobs[2].duration_s, 90000.0);
  EXPECT_THAT(all.ignored, ElementsAre(HasSubstr("1 jobs without GPUs"),
                                       HasSubstr("1 jobs without a time limit"),
                                       HasSubstr("2 jobs that are held")));
  EXPECT_EQ(queued_jobs(parse_jobs(kSqueueAnswer), {"other"}).jobs.size(), 1u);
}

}  // namespace
}  // namespace orrery::live
