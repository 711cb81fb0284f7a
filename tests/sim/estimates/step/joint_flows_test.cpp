#include "sim/estimates/step/joint_flows.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/job.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

/// Jobs on a cluster of units of three nodes of 8 GPUs, with one oversubscribed spine.
class Jobs {
 public:
  /// `nics`: rate of all NICs; empty: as they are.
  explicit Jobs(const std::string& nics = {}) : loaded_(scenario(nics)) {}
  /// Adds a job of `nodes` nodes.
  void add(std::uint32_t first_node, std::uint32_t nodes) {
    jobs_.push_back(std::make_unique<One>(*this, first_node, nodes));
  }
  std::vector<FlowGroup> groups() {
    plan_jobs();
    std::vector<const FlowGraph*> graphs;
    for (const auto& job : jobs_) graphs.push_back(&job->flows);
    return flow_groups(beside_, graphs);
  }

 private:
  struct One {
    One(Jobs& of, std::uint32_t first_node, std::uint32_t nodes)
        : graph([&] {
            Job job = of.loaded_.scenario.job();
            job.mutable_layout()->set_data(nodes);
            job.set_global_batch(job.global_batch() / 4 * nodes);
            return StepGraph(job);
          }()) {
      for (std::uint32_t i = 0; i < 8 * nodes; ++i) gpus.push_back({8 * first_node + i});
      stepper.emplace(of.cluster_, graph, gpus, Stepper::Options{}, [](auto hosts, auto links) {
        return std::make_shared<FreeEngine>(hosts, links);
      });
      shares = even_split(graph.micro_batches(), graph.data());
      crossed = stepper->links_crossed_by({}, shares);
    }
    StepGraph graph;
    std::vector<GpuId> gpus;
    std::optional<Stepper> stepper;
    std::vector<std::uint32_t> shares;
    std::vector<LinkId> crossed;
    std::unique_ptr<SimulatedStep> step;
    FlowGraph flows;
  };

  void plan_jobs() {
    beside_.clear();
    for (const auto& job : jobs_) {
      std::vector<LinkId> shared;
      for (const LinkId link : job->crossed) {
        const auto users = std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& other) {
          return std::binary_search(other->crossed.begin(), other->crossed.end(), link);
        });
        if (users > 1) shared.push_back(link);
      }
      job->step = job->stepper->planned({}, job->shares, std::move(shared));
      job->flows = flow_graph(job->graph, job->step->plan, job->stepper->prices());
      beside_.push_back({.graph = job->graph,
                         .plan = job->step->plan,
                         .prices = job->stepper->prices(),
                         .state = nominal_});
    }
  }

  static LoadedScenario scenario(const std::string& nics) {
    std::vector<std::string> overrides{
        "cluster.nodes=24", "cluster.fabric.nodes_per_unit=3", "cluster.fabric.spines=1",
        "cluster.fabric.spine_link_bandwidth=50 Gbps", "job.overlap=false"};
    if (!nics.empty()) overrides.push_back("cluster.node.nic_bandwidth=" + nics);
    return testing::small_scenario(8, 1, 4, "", overrides);
  }

  LoadedScenario loaded_;
  Cluster cluster_ = build_cluster(loaded_.scenario.cluster(), loaded_.places);
  const HardwareState nominal_;
  std::vector<std::unique_ptr<One>> jobs_;
  std::vector<JobBeside> beside_;
};

using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Returns the groups of jobs on these nodes: the first node and the number of nodes of each.
std::vector<FlowGroup> groups_of(const Places& places, const std::string& nics = {}) {
  Jobs jobs(nics);
  for (const auto& [first_node, nodes] : places) jobs.add(first_node, nodes);
  std::vector<FlowGroup> groups = jobs.groups();
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
