#include "sim/contention/contention.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/job.hpp"
#include "sim/engine/simgrid_engine.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

using testing::numbers_in_child;

/// Jobs of four nodes on a cluster whose units hold three: neighbours meet on the uplinks of the
/// unit between them, others do not.
class Bench {
 public:
  Bench() {
    const estimates::EngineRoom room =
        estimates::engine_room(cluster, StepGraph(loaded.scenario.job()), false);
    engine = simgrid_engine(3 * room.hosts, 3 * room.links);
  }

  Contention::Work work(std::uint32_t first_gpu) {
    jobs.push_back(std::make_unique<One>(*this, first_gpu));
    StepGraph& graph = jobs.back()->graph;
    return {.stepper = {std::shared_ptr<void>(), &*jobs.back()->stepper},
            .state = {},
            .micro_batches = even_split(graph.micro_batches(), graph.data())};
  }

  LoadedScenario loaded = testing::small_scenario(
      8, 1, 4, "",
      {"cluster.nodes=16", "cluster.fabric.nodes_per_unit=3", "cluster.fabric.spines=1",
       "cluster.fabric.spine_link_bandwidth=50 Gbps", "job.overlap=false"});
  Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  std::shared_ptr<estimates::Engine> engine;
  struct One {
    One(Bench& of, std::uint32_t first_gpu) : graph(of.loaded.scenario.job()) {
      for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) gpus.push_back({first_gpu + rank});
      stepper.emplace(of.cluster, graph, gpus, estimates::Stepper::Options{},
                      [&of](std::uint32_t, std::uint32_t) { return of.engine; });
    }
    StepGraph graph;
    std::vector<GpuId> gpus;
    std::optional<estimates::Stepper> stepper;
  };
  std::vector<std::unique_ptr<One>> jobs;
};

constexpr JobId kA{0}, kB{1}, kC{2};

TEST(Contention, ThoseWhoMeetThroughOthersAreOneCompany) {
  const std::vector<double> seen = numbers_in_child([] {
    Bench bench;
    Contention contention;
    std::vector<double> out;
    const auto note = [&](std::uint64_t number) { out.push_back(static_cast<double>(number)); };
    contention.enter_job(kA, bench.work(0));   // units 0, 1
    contention.enter_job(kC, bench.work(64));  // units 2, 3
    note(contention.company(kA));
    note(contention.company(kC));
    note(contention.step(kA, 0) == nullptr);
    contention.enter_job(kB, bench.work(32));  // units 1, 2
    note(contention.company(kA) == contention.company(kC));
    note(contention.company(kA) != 0);
    const double a = contention.step(kA, 0)->run.duration;
    const double b = contention.step(kB, 0)->run.duration;
    out.insert(out.end(), {a, b});
    const std::uint64_t before = contention.company(kA);
    contention.remove_job(kC);
    note(contention.company(kA) != before);
    out.push_back(contention.step(kA, 0)->run.duration);
    contention.remove_job(kB);
    note(contention.company(kA));
    return out;
  });
  ASSERT_EQ(seen.size(), 10u);
  EXPECT_EQ(seen[0], 0) << "apart";
  EXPECT_EQ(seen[1], 0);
  EXPECT_EQ(seen[2], 1);
  EXPECT_EQ(seen[3], 1) << "the third joins both";
  EXPECT_EQ(seen[4], 1);
  EXPECT_GT(seen[5], 0);
  EXPECT_NEAR(seen[5], seen[6], 0.01 * seen[5]) << "all in step: each meets at least one";
  EXPECT_EQ(seen[7], 1) << "who leaves changes it for all";
  EXPECT_GT(seen[8], 0);
  EXPECT_EQ(seen[9], 0) << "alone again";
}

/// Two steady jobs that share the uplinks of one unit: their steps, and the events of the engine.
std::vector<double> steps_and_events(Bench& bench, Contention& contention, std::uint32_t first,
                                     std::uint32_t second) {
  for (const auto& [job, gpu] : {std::pair{kA, first}, {kB, second}}) {
    Contention::Work work = bench.work(gpu);
    work.steady = true;
    contention.enter_job(job, std::move(work));
  }
  return {contention.step(kA, 0)->run.duration, contention.step(kB, 0)->run.duration,
          static_cast<double>(bench.engine->events())};
}

TEST(Contention, ASteadyGroupIsSimulatedOnceWhereverItStands) {
  const std::vector<double> seen = numbers_in_child([] {
    Bench bench;
    Contention contention;
    std::vector<double> out = steps_and_events(bench, contention, 0, 32);  // units 0-1, 1-2
    for (const auto& [first, second] : {std::pair{48u, 80u}, {80u, 48u}}) {
      const std::vector<double> more = steps_and_events(bench, contention, first, second);
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  });
  ASSERT_EQ(seen.size(), 9u);
  EXPECT_EQ((std::vector<double>{seen[3], seen[4], seen[5]}),
            (std::vector<double>{seen[0], seen[1], seen[2]}))
      << "units 2-3 and 3-4";
  EXPECT_EQ((std::vector<double>{seen[6], seen[7], seen[8]}),
            (std::vector<double>{seen[1], seen[0], seen[2]}))
      << "the other way round";
}

TEST(Contention, WhereTheOthersStandInTheirStepsCounts) {
  const std::vector<double> steps = numbers_in_child([] {
    Bench bench;
    Contention contention;
    const Contention::Work first = bench.work(0), second = bench.work(32);
    const double alone = first.stepper->step({}, first.micro_batches)->run.duration;
    std::vector<double> out = {alone};
    for (const double later : {0.0, 0.1, 0.5}) {
      contention.enter_job(kA, first);
      contention.enter_job(kB, second);
      contention.next_step(kB, to_nanos(later * alone));
      out.push_back(contention.step(kA, 0)->run.duration);
      contention.remove_job(kA);
      contention.remove_job(kB);
    }
    return out;
  });
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_GT(steps[1], steps[2]) << "in step they exchange at once";
  EXPECT_GT(steps[2], steps[3] - 1e-9);
  EXPECT_GE(steps[3], steps[0] - 1e-9);
}

}  // namespace
}  // namespace orrery::sim
