#include "sim/estimates/step/side_by_side.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/job.hpp"
#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/step/played_step.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

using testing::numbers_in_child;

class Bench {
 public:
  explicit Bench(bool full_detail) {
    const EngineRoom room = engine_room(cluster, graph, full_detail);
    engine = sim::simgrid_engine(2 * room.hosts, 2 * room.links);
    for (std::uint32_t job = 0; job < 2; ++job) {
      for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
        gpus[job].push_back({job * graph.ranks() + rank});
      }
      steppers[job].emplace(cluster, graph, gpus[job],
                            Stepper::Options{.full_detail = full_detail},
                            [this](std::uint32_t, std::uint32_t) { return engine; });
    }
  }
  JobBeside beside(const SimulatedStep& step, std::uint32_t job) {
    return {.graph = graph, .plan = step.plan, .prices = steppers[job]->prices(), .state = state};
  }
  std::vector<LinkId> common() {
    const auto a = steppers[0]->links_crossed_by(state, shares),
               b = steppers[1]->links_crossed_by(state, shares);
    std::vector<LinkId> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
  }

  LoadedScenario loaded = testing::small_scenario(
      8, 1, 4, "",
      {"cluster.nodes=9", "cluster.fabric.nodes_per_unit=3", "cluster.fabric.spines=1",
       "cluster.fabric.spine_link_bandwidth=50 Gbps", "job.overlap=false"});
  Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph{loaded.scenario.job()};
  std::vector<std::uint32_t> shares = even_split(graph.micro_batches(), graph.data());
  HardwareState state;
  std::shared_ptr<Engine> engine;
  std::vector<GpuId> gpus[2];
  std::optional<Stepper> steppers[2];
};

TEST(SideBySide, WhoSharesNoLinkTakesWhatItTakesAlone) {
  const std::vector<double> times = numbers_in_child([] {
    Bench bench(false);
    const auto first = bench.steppers[0]->planned(bench.state, bench.shares, {});
    const auto second = bench.steppers[1]->planned(bench.state, bench.shares, {});
    const auto steady =
        steady_steps(*bench.engine, {bench.beside(*first, 0), bench.beside(*second, 1)});
    return std::vector<double>{bench.steppers[0]->step(bench.state, bench.shares)->run.duration,
                               steady[0].mean, steady[1].mean, steady[0].run.duration};
  });
  ASSERT_EQ(times.size(), 4u);
  for (const double time : times) EXPECT_NEAR(time, times[0], 1e-8);
}

/// Its own rate is the link's; two at once have half of it, folded or flow by flow.
TEST(SideBySide, TwoThatExchangeAtOnceHaveHalfTheRateEach) {
  for (const bool full_detail : {false, true}) {
    const std::vector<double> times = numbers_in_child([full_detail] {
      Bench bench(full_detail);
      const std::vector<LinkId> common = bench.common();
      const auto first = bench.steppers[0]->planned(bench.state, bench.shares, common);
      const auto second = bench.steppers[1]->planned(bench.state, bench.shares, common);
      const auto steady =
          steady_steps(*bench.engine, {bench.beside(*first, 0), bench.beside(*second, 1)});
      const auto alone = bench.steppers[0]->step(bench.state, bench.shares);
      const StepParts parts = parts_of(*alone, alone->run.duration, {});
      return std::vector<double>{static_cast<double>(common.size()), alone->run.duration,
                                 parts.exchange, steady[0].mean, steady[1].mean};
    });
    ASSERT_EQ(times.size(), 5u);
    EXPECT_GT(times[0], 0) << "they meet";
    EXPECT_NEAR(times[3], times[1] + times[2], 0.02 * times[3]);
    EXPECT_NEAR(times[4], times[3], 1e-6);
  }
}

TEST(SideBySide, ALinkThatIsDownCutsTheStepShort) {
  const std::vector<double> seen = numbers_in_child([] {
    Bench bench(false);
    bench.state.down.insert(bench.common().front().value);
    const std::vector<LinkId> common = bench.common();
    const auto first = bench.steppers[0]->planned(bench.state, bench.shares, common);
    const auto second = bench.steppers[1]->planned(bench.state, bench.shares, common);
    const auto steady =
        steady_steps(*bench.engine, {bench.beside(*first, 0), bench.beside(*second, 1)});
    return std::vector<double>{double(steady[0].run.cut_short), double(steady[1].run.cut_short)};
  });
  EXPECT_EQ(seen, (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace orrery::estimates
