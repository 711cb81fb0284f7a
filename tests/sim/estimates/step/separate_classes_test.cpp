// Steps whose classes run one after the other until their first collective, against steps whose
// classes run together.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/seam/job.hpp"
#include "sim/estimates/engine/max_min_shares.hpp"
#include "sim/estimates/engine/sharing_engine.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

/// Engine that counts its parts, or has none.
class CountingEngine : public SharingEngine {
 public:
  CountingEngine(const EngineRoom& room, bool has_parts)
      : SharingEngine(room.hosts, room.links, std::make_unique<MaxMinShares>(room.links, 3)),
        has_parts_(has_parts) {}
  bool can_run_parts() const override { return has_parts_; }
  void run_parts(std::uint32_t parts, const std::function<void(std::uint32_t)>& begin) override {
    ran_ += parts;
    SharingEngine::run_parts(parts, begin);
  }
  std::uint32_t ran() const { return ran_; }

 private:
  const bool has_parts_;
  std::uint32_t ran_ = 0;
};

/// Job with ranks that are slow by factors of their own.
struct Slow {
  std::uint32_t tensor = 1, pipeline = 1, data = 1;
  std::vector<std::string> overrides;
  HardwareState state = {};
};

struct Ran {
  IterationRun run;
  std::uint32_t parts = 0;
};

/// Returns the second step of the job: an engine serves one after the other.
Ran second_step(const Slow& job, bool has_parts) {
  const LoadedScenario loaded =
      testing::small_scenario(static_cast<int>(job.tensor), static_cast<int>(job.pipeline),
                              static_cast<int>(job.data), "", job.overrides);
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph(loaded.scenario.job());
  const auto engine =
      std::make_shared<CountingEngine>(engine_room(cluster, graph, false), has_parts);
  std::vector<GpuId> gpus;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) gpus.push_back({rank});
  Stepper stepper(cluster, graph, gpus, {}, [&](auto, auto) { return engine; });
  const std::vector<std::uint32_t> shares = even_split(graph.micro_batches(), graph.data());
  stepper.step({}, shares);
  const auto step = stepper.step(job.state, shares);
  return {step->run, engine->ran()};
}

/// Replicas of three stages share nodes, whose GPUs may share NICs; experts are exchanged among
/// some of the replicas.
Slow random_job(Rng& draw) {
  const auto one_of = [&](std::vector<std::uint32_t> values) {
    return values[draw.next() % values.size()];
  };
  Slow job;
  job.tensor = one_of({2, 4, 8});
  job.pipeline = one_of({1, 2, 3, 4});
  job.data = one_of({2, 4, 8});
  job.overrides = {"job.model.layers=24", "cluster.nodes=32",
                   fmt::format("job.global_batch={}", job.data * one_of({4, 12})),
                   fmt::format("cluster.node.nic_bandwidth={} Gbps", one_of({3, 25, 400})),
                   fmt::format("cluster.node.nics_per_node={}", one_of({1, 2, 8, 8}))};
  if (job.pipeline > 1 && one_of({0, 1, 2}) == 0) job.overrides.push_back("job.layout.chunks=2");
  if (one_of({0, 1, 2, 3}) == 0) {
    job.overrides.push_back("job.model.experts={count: 8, top_k: 2}");
    job.overrides.push_back("job.layout.expert=2");
  }
  const std::uint32_t ranks = job.tensor * job.pipeline * job.data;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (one_of({0, 1, 2, 3}) > 0) job.state.slow[rank] = 1 + 0.002 * one_of({10, 100, 400, 999});
  }
  return job;
}

/// Ends within 1 ns are one instant of the engine, of all classes that run together.
void expect_near(double found, double expected, const std::string& what) {
  EXPECT_NEAR(found, expected, 1e-7 + 1e-9 * expected) << what;
}

void expect_equal_steps(const IterationRun& found, const IterationRun& expected,
                        const std::string& what) {
  EXPECT_EQ(found.events, expected.events) << what;
  expect_near(found.duration, expected.duration, what);
  expect_near(found.input_tail, expected.input_tail, what);
  ASSERT_EQ(found.workers.size(), expected.workers.size()) << what;
  for (std::size_t worker = 0; worker < found.workers.size(); ++worker) {
    const WorkerRun& a = found.workers[worker];
    const WorkerRun& b = expected.workers[worker];
    expect_near(a.passes_end, b.passes_end, what);
    expect_near(a.exposed, b.exposed, what);
    expect_near(a.tail, b.tail, what);
    EXPECT_EQ(a.micro_batches, b.micro_batches) << what;
  }
}

TEST(SeparateClasses, RunOneAfterTheOtherAsTogether) {
  Rng draw(7);
  std::uint32_t apart = 0;
  for (int i = 0; i < 150; ++i) {
    const Slow job = random_job(draw);
    const Ran found = second_step(job, true), expected = second_step(job, false);
    apart += found.parts > 0 ? 1 : 0;
    expect_equal_steps(found.run, expected.run,
                       fmt::format("job {}: tensor {}, pipeline {}, data {}", i, job.tensor,
                                   job.pipeline, job.data));
  }
  EXPECT_GT(apart, 60u) << "many steps have classes that run apart";
  EXPECT_LT(apart, 140u) << "and some have not";
}

/// Replica 2 is slow, and its last stage receives over a NIC that the first stage of replica 3 uses
/// for its shards only, in a group of its own with replicas 4 and 5, and much earlier.
TEST(SeparateClasses, ACollectiveOfSomeClassesMayBeginBeforeOthersPause) {
  Slow job{.tensor = 2, .pipeline = 3, .data = 6, .overrides = {}, .state = {}};
  job.overrides = {"job.model.layers=24", "job.layout.shard=optimizer", "job.layout.shard_group=3",
                   "cluster.node.nics_per_node=2", "cluster.node.nic_bandwidth=3 Gbps",
                   "cluster.fabric={kind: flat}"};
  for (std::uint32_t rank = 0; rank < 36; ++rank) {
    job.state.slow[rank] = (rank / 6 == 2 ? 3 : 1) + 0.001 * rank;
  }
  const Ran found = second_step(job, true), expected = second_step(job, false);
  EXPECT_EQ(found.parts, 0u);
  expect_equal_steps(found.run, expected.run, "slow replica");
}

}  // namespace
}  // namespace orrery::estimates
