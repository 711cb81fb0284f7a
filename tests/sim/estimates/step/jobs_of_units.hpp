// Test jobs with plans: their flows meet on the uplinks of units of nodes.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/job.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/step/joint_links.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {

/// Jobs on a cluster of units of three nodes of 8 GPUs, with one oversubscribed spine.
class JobsOfUnits {
 public:
  /// `nics`: rate of all NICs; empty: as they are.
  explicit JobsOfUnits(const std::string& nics = {}) : loaded_(scenario(nics)) {}
  /// Adds a job of `nodes` nodes.
  void add(std::uint32_t first_node, std::uint32_t nodes) {
    jobs_.push_back(std::make_unique<One>(*this, first_node, nodes));
  }
  /// Plans the jobs, with the links that several cross pinned. The result is valid until the next
  /// call.
  const std::vector<JobBeside>& planned_jobs() {
    plan_jobs();
    return beside_;
  }

 private:
  struct One {
    One(JobsOfUnits& of, std::uint32_t first_node, std::uint32_t nodes)
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
    return orrery::testing::small_scenario(8, 1, 4, "", overrides);
  }

  LoadedScenario loaded_;
  Cluster cluster_ = build_cluster(loaded_.scenario.cluster(), loaded_.places);
  const HardwareState nominal_;
  std::vector<std::unique_ptr<One>> jobs_;
  std::vector<JobBeside> beside_;
};

}  // namespace orrery::estimates
