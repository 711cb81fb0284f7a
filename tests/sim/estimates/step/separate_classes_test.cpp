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

Slow random_job(Rng& draw) {
  const auto one_of = [&](std::vector<std::uint32_t> values) {
    return values[draw.next() % values.size()];
  };
  Slow job;
  job.tensor = one_of({2, 4, 8});
  job.pipeline = one_of({1, 2, 4});
  job.data = 32 / job.tensor / job.pipeline * one_of({2, 4});
  if (job.pipeline > 1 && draw.next() % 3 == 0) job.overrides.push_back("job.layout.chunks=2");
  job.overrides.push_back(fmt::format("job.global_batch={}", job.data * one_of({2, 8})));
  job.overrides.push_back(fmt::format("cluster.node.nic_bandwidth={} Gbps", one_of({3, 25, 400})));
  const std::uint32_t ranks = job.tensor * job.pipeline * job.data;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (draw.next() % 4 > 0) job.state.slow[rank] = 1 + static_cast<double>(draw.next() % 1000) / 500;
  }
  return job;
}

/// Ends within 1 ns are one instant of the engine, of all classes that run together.
void expect_near(double found, double expected, const std::string& what) {
  EXPECT_NEAR(found, expected, 1e-7 + 1e-9 * expected) << what;
}

TEST(SeparateClasses, RunOneAfterTheOtherAsTogether) {
  Rng draw(7);
  std::uint32_t apart = 0;
  for (int i = 0; i < 60; ++i) {
    const Slow job = random_job(draw);
    const std::string what = fmt::format("job {}: tensor {}, pipeline {}, data {}", i, job.tensor,
                                         job.pipeline, job.data);
    const Ran found = second_step(job, true), expected = second_step(job, false);
    apart += found.parts > 0 ? 1 : 0;
    EXPECT_EQ(found.run.events, expected.run.events) << what;
    expect_near(found.run.duration, expected.run.duration, what);
    expect_near(found.run.input_tail, expected.run.input_tail, what);
    ASSERT_EQ(found.run.workers.size(), expected.run.workers.size()) << what;
    for (std::size_t worker = 0; worker < found.run.workers.size(); ++worker) {
      const WorkerRun& a = found.run.workers[worker];
      const WorkerRun& b = expected.run.workers[worker];
      expect_near(a.passes_end, b.passes_end, what);
      expect_near(a.exposed, b.exposed, what);
      expect_near(a.tail, b.tail, what);
      EXPECT_EQ(a.micro_batches, b.micro_batches) << what;
    }
  }
  EXPECT_GT(apart, 30u) << "most steps have classes that run apart";
}

}  // namespace
}  // namespace orrery::estimates
