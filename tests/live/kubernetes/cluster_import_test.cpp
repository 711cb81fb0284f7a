#include "live/kubernetes/cluster_import.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns nodes of eight H100, one for each letter: its rack; '-' is no rack.
std::vector<KubeNode> nodes_in(const std::string& racks) {
  std::vector<KubeNode> nodes;
  for (const char rack : racks) {
    KubeNode node;
    node.name = "n" + std::to_string(nodes.size());
    node.gpus = 8;
    node.is_usable = true;
    node.gpu_type = "NVIDIA-H100-80GB-HBM3";
    if (rack != '-') node.rack = std::string(1, rack);
    nodes.push_back(node);
  }
  return nodes;
}

TEST(KubeImport, RacksAreTheNodesBelowASwitch) {
  const ClusterFacts facts = rack_facts(nodes_in("aabb"));
  EXPECT_EQ(facts.nodes, 4u);
  EXPECT_EQ(facts.gpus_per_node, 8u);
  EXPECT_EQ(facts.gpu, "H100");
  EXPECT_EQ(facts.nodes_per_leaf, 2u);
  EXPECT_THAT(facts.assumed, IsEmpty());
  EXPECT_EQ(rack_facts(nodes_in("aaaa")).nodes_per_leaf, 0u) << "one rack has no other switch";
  EXPECT_EQ(rack_facts(nodes_in("----")).nodes_per_leaf, 0u);
}

TEST(KubeImport, UnequalRacksAndNodesThatAreLostAreAssumptions) {
  std::vector<KubeNode> nodes = nodes_in("aaab-");
  nodes[0].is_usable = false;
  nodes[1].gpus = 4;
  const ClusterFacts facts = rack_facts(nodes);
  EXPECT_EQ(facts.nodes, 5u);
  EXPECT_EQ(facts.nodes_per_leaf, 3u);
  EXPECT_THAT(facts.assumed,
              ElementsAre(HasSubstr("1 nodes with fewer GPUs"), HasSubstr("1 nodes that are down"),
                          "racks of 3 nodes, where the smallest has 1",
                          "1 nodes without the label of a rack as one rack"));
  EXPECT_THROW(rack_facts({}), Error);
}

KubeGang gang_of(const std::string& id, GangState state, std::int64_t submitted_s,
                 std::int64_t limit_s) {
  KubeGang gang;
  gang.id = id;
  gang.state = state;
  gang.is_managed = true;
  gang.submitted_s = submitted_s;
  gang.limit_s = limit_s;
  gang.queue = "team";
  gang.pods = 4;
  gang.gpus_per_pod = 2;
  return gang;
}

TEST(KubeImport, PlacedGangsThenWaitingOnesWithTheirLimits) {
  std::vector<KubeGang> gangs{gang_of("ml/late", GangState::waiting, 9, 600),
                              gang_of("ml/early", GangState::waiting, 3, 60),
                              gang_of("ml/runs", GangState::placed, 7, 3600),
                              gang_of("ml/begins", GangState::placing, 8, 30),
                              gang_of("ml/endless", GangState::waiting, 1, 0),
                              gang_of("ml/part", GangState::incomplete, 1, 60),
                              gang_of("ml/done", GangState::completed, 1, 60),
                              gang_of("ml/pod/other", GangState::placed, 1, 60)};
  gangs.back().is_managed = false;
  const QueuedJobs queued = queued_gangs(gangs);
  std::vector<std::string> jobs;
  for (const TraceJob& job : queued.jobs) {
    jobs.push_back(job.id + " " + std::to_string(job.requested_s) + " x" +
                   std::to_string(job.gpus));
  }
  EXPECT_THAT(jobs, ElementsAre("ml/runs 3600 x8", "ml/begins 30 x8", "ml/early 60 x8",
                                "ml/late 600 x8"));
  EXPECT_EQ(queued.jobs[0].duration_s, 3600);
  EXPECT_EQ(queued.jobs[0].pool, "team");
  EXPECT_EQ(queued.jobs[0].user, "ml");
  EXPECT_EQ(queued.jobs[0].submit_s, 0);
  EXPECT_THAT(queued.ignored,
              ElementsAre(HasSubstr("1 gangs or pods"), HasSubstr("1 gangs whose pods"),
                          HasSubstr("1 gangs that are over"), HasSubstr("orrery.io/time-limit")));
}

}  // namespace
}  // namespace orrery::live
