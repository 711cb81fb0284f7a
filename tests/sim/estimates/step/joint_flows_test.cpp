#include "sim/estimates/step/joint_flows.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/estimates/step/jobs_of_units.hpp"

namespace orrery::estimates {
namespace {

using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Returns the groups of jobs on these nodes: the first node and the number of nodes of each.
std::vector<FlowGroup> groups_of(const Places& places, const std::string& nics = {}) {
  JobsOfUnits jobs(nics);
  for (const auto& [first_node, nodes] : places) jobs.add(first_node, nodes);
  const std::vector<JobBeside>& beside = jobs.planned_jobs();
  std::deque<FlowGraph> flows;
  std::vector<const FlowGraph*> graphs;
  for (const JobBeside& job : beside) {
    graphs.push_back(&flows.emplace_back(flow_graph(job.graph, job.plan, job.prices)));
  }
  std::vector<FlowGroup> groups = flow_groups(beside, graphs);
  for (FlowGroup& group : groups) {
    for (FlowGroup::Lane& lane : group.lanes) lane.graph = nullptr;
  }
  return groups;
}

std::vector<std::string> texts_of(const Places& places) {
  std::vector<std::string> texts;
  for (const FlowGroup& group : groups_of(places)) texts.push_back(group.text);
  std::sort(texts.begin(), texts.end());
  return texts;
}

TEST(FlowGroups, JobsThatFillACommonLinkAreOneGroup) {
  const std::vector<FlowGroup> groups = groups_of({{0, 4}, {4, 4}, {12, 4}, {16, 4}, {20, 4}});
  ASSERT_EQ(groups.size(), 2u);  // units 0-1, 1-2; units 4-5, 5-6, 6-7
  EXPECT_EQ(groups[0].lanes.size(), 2u);
  EXPECT_EQ(groups[0].links.size(), 1u) << "the uplinks of unit 1";
  EXPECT_EQ(groups[1].lanes.size(), 3u);
  EXPECT_EQ(groups[1].links.size(), 2u) << "the uplinks of units 5 and 6";
}

TEST(FlowGroups, ALinkWithRoomForAllFlowsJoinsNobody) {
  // The spine carries 50 Gbps of each rail.
  for (const auto& [nics, groups] : {std::pair{"26 Gbps", 1u}, {"25 Gbps", 2u}, {"20 Gbps", 2u}}) {
    const std::vector<FlowGroup> found = groups_of({{0, 4}, {4, 4}}, nics);
    EXPECT_EQ(found.size(), groups) << nics;
    EXPECT_EQ(found.front().links.empty(), groups == 2) << nics;
  }
}

TEST(FlowGroups, OtherUnitsAndAnotherOrderGiveTheSameText) {
  const std::vector<std::string> here = texts_of({{0, 4}, {4, 4}});  // units 0-1 and 1-2
  EXPECT_EQ(here.size(), 1u);
  EXPECT_EQ(here, texts_of({{12, 4}, {16, 4}})) << "units 4-5 and 5-6";
  EXPECT_EQ(here, texts_of({{1, 4}, {5, 4}})) << "rings cross a unit once, wherever they are cut";
  EXPECT_EQ(texts_of({{0, 4}, {4, 5}}), texts_of({{0, 5}, {5, 4}}));
  EXPECT_EQ(groups_of({{0, 4}, {4, 5}})[0].lanes[0].job,
            1 - groups_of({{0, 5}, {5, 4}})[0].lanes[0].job)
      << "the same job comes first in both";
}

TEST(FlowGroups, OtherJobsOrOtherSharedLinksGiveAnotherText) {
  const std::vector<std::string> two = texts_of({{0, 4}, {4, 4}});
  EXPECT_NE(two, texts_of({{0, 4}, {4, 5}})) << "another size";
  EXPECT_NE(two, texts_of({{0, 4}, {12, 4}})) << "no link is shared";
  EXPECT_NE(two, texts_of({{0, 4}, {4, 4}, {8, 3}})) << "one more job";
  // The third job shares links with both, or with one of them.
  EXPECT_NE(texts_of({{0, 5}, {5, 5}, {10, 4}}), texts_of({{0, 5}, {5, 2}, {7, 4}}));
}

}  // namespace
}  // namespace orrery::estimates
