#include "sim/estimates/step/joint_links.hpp"

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
class Group {
 public:
  /// Adds a job of `nodes` nodes.
  void add(std::uint32_t first_node, std::uint32_t nodes) {
    jobs_.push_back(std::make_unique<One>(*this, first_node, nodes));
  }
  JointPattern pattern() {
    plan_jobs();
    return joint_pattern(beside_);
  }
  JointLinks links() {
    plan_jobs();
    return joint_links(beside_);
  }

 private:
  struct One {
    One(Group& of, std::uint32_t first_node, std::uint32_t nodes)
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
      beside_.push_back({.graph = job->graph,
                         .plan = job->step->plan,
                         .prices = job->stepper->prices(),
                         .state = nominal_});
    }
  }

  LoadedScenario loaded_ = testing::small_scenario(
      8, 1, 4, "",
      {"cluster.nodes=24", "cluster.fabric.nodes_per_unit=3", "cluster.fabric.spines=1",
       "cluster.fabric.spine_link_bandwidth=50 Gbps", "job.overlap=false"});
  Cluster cluster_ = build_cluster(loaded_.scenario.cluster(), loaded_.places);
  const HardwareState nominal_;
  std::vector<std::unique_ptr<One>> jobs_;
  std::vector<JobBeside> beside_;
};

using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

JointPattern pattern_of(const Places& places) {
  Group group;
  for (const auto& [first_node, nodes] : places) group.add(first_node, nodes);
  return group.pattern();
}

TEST(JointLinks, LinksThatBothJobsCrossHaveOneNumber) {
  Group group;
  group.add(0, 4);  // units 0, 1
  group.add(4, 4);  // units 1, 2
  const JointLinks links = group.links();
  ASSERT_EQ(links.numbers.size(), 2u);
  std::vector<std::uint32_t> used[2], both;
  for (std::size_t job = 0; job < 2; ++job) {
    for (const std::uint32_t number : links.numbers[job]) {
      if (number != JointLinks::kNone) used[job].push_back(number);
    }
    std::sort(used[job].begin(), used[job].end());
    EXPECT_TRUE(std::adjacent_find(used[job].begin(), used[job].end()) == used[job].end());
    EXPECT_LT(used[job].back(), links.count);
  }
  std::set_intersection(used[0].begin(), used[0].end(), used[1].begin(), used[1].end(),
                        std::back_inserter(both));
  EXPECT_FALSE(both.empty());
  EXPECT_LT(both.size(), used[0].size()) << "links of its own remain";
}

TEST(JointPattern, OtherUnitsAndAnotherOrderGiveTheSamePattern) {
  const JointPattern here = pattern_of({{0, 4}, {4, 4}});    // units 0-1 and 1-2
  const JointPattern there = pattern_of({{12, 4}, {16, 4}});  // units 4-5 and 5-6
  EXPECT_EQ(here.text, there.text);
  const JointPattern shifted = pattern_of({{1, 4}, {5, 4}});  // two nodes in each unit
  EXPECT_EQ(here.text, shifted.text) << "rings cross a unit once, wherever they are cut";
  const JointPattern small_first = pattern_of({{0, 4}, {4, 5}});
  const JointPattern large_first = pattern_of({{0, 5}, {5, 4}});
  EXPECT_EQ(small_first.text, large_first.text);
  EXPECT_NE(small_first.order, large_first.order) << "the same job comes first in both";
}

TEST(JointPattern, OtherJobsOrOtherSharedLinksGiveAnotherPattern) {
  const std::string two = pattern_of({{0, 4}, {4, 4}}).text;
  EXPECT_NE(two, pattern_of({{0, 4}, {4, 5}}).text) << "another size";
  EXPECT_NE(two, pattern_of({{0, 4}, {12, 4}}).text) << "no link is shared";
  EXPECT_NE(two, pattern_of({{0, 4}, {4, 4}, {8, 3}}).text) << "one more job";
  // The third job shares links with both, or with one of them.
  EXPECT_NE(pattern_of({{0, 5}, {5, 5}, {10, 4}}).text, pattern_of({{0, 5}, {5, 2}, {7, 4}}).text);
}

}  // namespace
}  // namespace orrery::estimates
