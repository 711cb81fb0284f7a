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
  /// `nics`: rate of all NICs; empty: as they are.
  explicit Group(const std::string& nics = {}) : loaded_(scenario(nics)) {}
  /// Adds a job of `nodes` nodes.
  void add(std::uint32_t first_node, std::uint32_t nodes) {
    jobs_.push_back(std::make_unique<One>(*this, first_node, nodes));
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

/// Returns the numbers of a job's links, ascending.
std::vector<std::uint32_t> numbers_of(const JointLinks& links, std::size_t job) {
  std::vector<std::uint32_t> used;
  for (const std::uint32_t number : links.numbers[job]) {
    if (number != JointLinks::kNone) used.push_back(number);
  }
  std::sort(used.begin(), used.end());
  EXPECT_TRUE(std::adjacent_find(used.begin(), used.end()) == used.end());
  return used;
}

TEST(JointLinks, LinksThatBothJobsCrossHaveOneNumberAndCoverTheOthers) {
  Group group;
  group.add(0, 4);  // units 0, 1
  group.add(4, 4);  // units 1, 2
  group.add(8, 4);  // units 2, 3
  const JointLinks links = group.links();
  ASSERT_EQ(links.numbers.size(), 3u);
  ASSERT_EQ(links.count, 2u) << "the uplinks of units 1 and 2; each job's own links never fill";
  const std::vector<std::uint32_t> first = numbers_of(links, 0), last = numbers_of(links, 2);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_NE(first, last);
  EXPECT_EQ(numbers_of(links, 1), (std::vector<std::uint32_t>{0, 1}));
}

TEST(JointLinks, ALinkOfOneJobStaysIfItIsNarrower) {
  Group group("20 Gbps");
  group.add(0, 4);
  group.add(4, 4);
  const JointLinks links = group.links();
  ASSERT_EQ(links.numbers.size(), 2u);
  EXPECT_EQ(links.count, 3u) << "the uplinks of unit 1, and narrow links of each job";
  EXPECT_EQ(numbers_of(links, 0).size(), 2u);
  EXPECT_EQ(numbers_of(links, 1).size(), 2u);
}

}  // namespace
}  // namespace orrery::estimates
