#include "sim/estimates/plan/trace_plan.hpp"

#include <gtest/gtest.h>

#include "tests/sim/trace_sample.hpp"

namespace orrery::estimates {
namespace {

using namespace testing;

TracePlan plan_of(const ChakraTrace& trace, const Cluster& cluster) {
  return plan_trace(trace, fold_trace(trace, cluster, false), cluster, full_rates(),
                    CollectiveAlgorithm::ring);
}

TEST(TracePlan, SizesAreWhatOneRankPutsIn) {
  const Cluster cluster = sample_cluster(1);
  const auto bytes = [&](chakra::CollectiveCommType type) {
    const std::string file = file_of({collective(0, type, 1000)});
    return plan_of(trace_of({file, file, file, file}), cluster).collectives[0].phases[0].bytes;
  };
  EXPECT_DOUBLE_EQ(bytes(chakra::ALL_REDUCE), 1500);      // 2 x 3/4
  EXPECT_DOUBLE_EQ(bytes(chakra::REDUCE_SCATTER), 750);   // 3/4
  EXPECT_DOUBLE_EQ(bytes(chakra::ALL_GATHER), 3000);      // three others' buffers
  EXPECT_DOUBLE_EQ(bytes(chakra::BROADCAST), 1000);
  EXPECT_DOUBLE_EQ(bytes(chakra::REDUCE), 1000);
  EXPECT_DOUBLE_EQ(bytes(chakra::BARRIER), 0);
}

TEST(TracePlan, ATeamIsOneWideFlowOverTheLinksOfAllItsGroups) {
  // Four groups of two across two nodes, all over the same rail pairs.
  std::vector<std::string> files(16);
  std::string groups = "{";
  for (int rank = 0; rank < 16; ++rank) {
    files[rank] = file_of({collective(0, chakra::ALL_REDUCE, 1000, fmt::format("{}", rank % 8))});
    if (rank >= 8) continue;
    groups += fmt::format("{}\"{}\": [{}, {}]", rank > 0 ? ", " : "", rank, rank, rank + 8);
  }
  const TracePlan plan = plan_of(trace_of(files, groups + "}"), sample_cluster(2));
  ASSERT_EQ(plan.collectives.size(), 1u);
  ASSERT_EQ(plan.links.links.size(), 1u);  // all NICs carry one flow each
  EXPECT_DOUBLE_EQ(plan.links.links[0].bandwidth, 10e9);
}

TEST(TracePlan, MessagesOverOneNicShareIt) {
  // Ranks 0 and 1 of node 0 send to rank 8: over its rail, and so over one NIC.
  const TracePlan plan = plan_of(
      trace_of({file_of({message(0, true, 8, 1000)}), file_of({message(0, true, 8, 1000)}),
                file_of({}), file_of({}), file_of({}), file_of({}), file_of({}), file_of({}),
                file_of({message(0, false, 0, 1000), message(1, false, 1, 1000)})}),
      sample_cluster(2));
  ASSERT_EQ(plan.sends.size(), 2u);
  const auto& a = plan.links.of_flow[plan.sends[0].phases[0].flow];
  const auto& b = plan.links.of_flow[plan.sends[1].phases[0].flow];
  EXPECT_EQ(a, b);
  EXPECT_DOUBLE_EQ(plan.links.links[a[0]].bandwidth, 10e9);
}

TEST(TracePlan, AloneThereIsNobodyToTalkTo) {
  const TracePlan plan =
      plan_of(trace_of({file_of({collective(0, chakra::ALL_REDUCE, 8)})}), sample_cluster(1));
  EXPECT_TRUE(plan.collectives[0].phases.empty());
}

}  // namespace
}  // namespace orrery::estimates
