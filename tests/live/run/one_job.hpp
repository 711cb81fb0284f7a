// World for tests: eight GPUs and one job on the first four, or on its assigned GPUs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "live/run/processes/placement.hpp"
#include "policies/seam/world.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {

/// World with one job, for tests of the parts of a live run.
struct OneJob {
  explicit OneJob(LossResponse response = LossResponse::go_on)
      : cluster(build_cluster(
            load_scenario(ORRERY_SOURCE_DIR "/examples/straggler-4-ranks.yaml", {"cluster.nodes=2"})
                .scenario.cluster(),
            SourceMap{})),
        world(cluster) {
    JobSpec spec;
    spec.id = kLiveJob;
    spec.gpus = 4;
    spec.layout.data = 4;
    spec.least_gpus = 1;
    spec.most_gpus = 4;
    spec.micro_batches = 16;
    spec.steps = 100;
    spec.can = Kinds<Setting>::all();
    spec.settings = {OnLoss{response}};
    world.apply(JobSubmitted{spec}, 0);
    world.apply(JobStarted{.job = kLiveJob,
                           .epoch = {1},
                           .from = 0,
                           .where = {GpuRuns::range({0}, 4), spec.layout}},
                0);
  }

  void lose_rank(std::uint32_t rank) {
    world.apply(RanksLost{.job = kLiveJob, .ranks = {RankId{rank}}, .epoch = {2}}, 1);
  }

  Assign assign_gpus(const std::vector<std::uint32_t>& gpus) {
    Assign where{.job = kLiveJob, .gpus = {}, .layout = {}, .state = StateFrom::peer};
    for (const std::uint32_t gpu : gpus) where.gpus.push_back(GpuId{gpu});
    where.layout.data = static_cast<std::uint32_t>(gpus.size());
    Decision decision;
    decision.id = decided++;
    decision.what = where;
    world.announce_decision(decision);
    world.apply(Decided{decision.id, Outcome::applied, {}}, 2);
    return where;
  }

  const Cluster cluster;
  World world;
  Placement placement{world, 8};
  DecisionId decided = 0;
};

}  // namespace orrery::live
