#include "sim/estimates/step/merged_blocks.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/job.hpp"
#include "sim/estimates/engine/max_min_shares.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

Op block(std::uint32_t number, FewOps after) {
  return {.kind = OpKind::compute, .phase = Phase::forward, .block = number, .after = after};
}
Op reduction(FewOps after) {
  return {.kind = OpKind::collective,
          .phase = Phase::gradient,
          .collective = OpCollective::all_reduce,
          .after = after};
}
std::vector<BlockPrice> prices_of(const std::vector<double>& seconds) {
  std::vector<BlockPrice> prices;
  for (const double each : seconds)
    prices.push_back({.compute = {each}, .tensor = {}, .moved = {}});
  return prices;
}
std::vector<std::uint32_t> list(const FewOps& ops) { return {ops.begin(), ops.end()}; }

TEST(MergedBlocks, ABlockThatACommunicationAwaitsEndsItsRun) {
  const Program program{.stage = 0,
                        .micro_batches = 1,
                        .ops = {block(0, {}), block(1, {0}), reduction({1}), block(2, {1}),
                                block(3, {3}), block(0, {4, 2}), block(1, {5, 2})}};
  std::vector<BlockPrice> prices = prices_of({1, 2, 4, 8});
  const Program merged = merge_blocks(program, prices);
  ASSERT_EQ(merged.ops.size(), 4u);
  EXPECT_EQ(prices[merged.ops[0].block].compute.value, 3) << "blocks 0 and 1";
  EXPECT_EQ(list(merged.ops[1].after), std::vector<std::uint32_t>{0});
  EXPECT_EQ(prices[merged.ops[2].block].compute.value, 12) << "blocks 2 and 3, beside it";
  EXPECT_EQ(prices[merged.ops[3].block].compute.value, 3) << "blocks that wait for it";
  EXPECT_EQ(list(merged.ops[3].after), std::vector<std::uint32_t>{1});
}

TEST(MergedBlocks, ABlockThatWaitsForACommunicationBeginsARun) {
  const Program program{.stage = 0,
                        .micro_batches = 1,
                        .ops = {reduction({}), block(0, {}), block(0, {1, 0}), block(0, {2})}};
  std::vector<BlockPrice> prices = prices_of({1});
  const Program merged = merge_blocks(program, prices);
  ASSERT_EQ(merged.ops.size(), 3u);
  EXPECT_EQ(merged.ops[1].block, 0u) << "alone, it keeps its price";
  EXPECT_EQ(prices[merged.ops[2].block].compute.value, 2);
  EXPECT_EQ(list(merged.ops[2].after), std::vector<std::uint32_t>{0});
}

/// Returns the duration of a step with these changes of the scenario, and its events.
std::vector<double> step_of(const std::vector<std::string>& overrides, bool merges) {
  const LoadedScenario loaded = testing::small_scenario(8, 2, 4, "", overrides);
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph(loaded.scenario.job());
  const EngineRoom room = engine_room(cluster, graph, false);
  const std::shared_ptr<Engine> engine = max_min_engine(room.hosts, room.links, 0);
  std::vector<GpuId> gpus;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) gpus.push_back({rank});
  Stepper stepper(cluster, graph, gpus, {}, [&](auto, auto) { return engine; });
  const HardwareState state;
  const auto step = stepper.planned(state, even_split(graph.micro_batches(), graph.data()), {});
  const IterationRun run = run_iteration({.engine = *engine,
                                          .graph = graph,
                                          .plan = step->plan,
                                          .prices = stepper.prices(),
                                          .state = state,
                                          .merges_blocks = merges});
  return {run.duration, static_cast<double>(run.events)};
}

TEST(MergedBlocks, AStepTakesAsLongInFewerEvents) {
  const std::vector<std::vector<std::string>> layouts{
      {"job.overlap=false"},
      {"job.overlap=true"},
      {"job.layout.shard=optimizer"},
      {"job.layout.shard=parameters"},
      {"job.layout.pipeline=1", "job.layout.data=8", "job.layout.shard=optimizer"},
      {"job.layout.pipeline=1", "job.layout.data=8", "job.overlap=false"},
  };
  double events = 0, merged_events = 0;
  for (const std::vector<std::string>& layout : layouts) {
    const std::vector<double> each = step_of(layout, false), merged = step_of(layout, true);
    EXPECT_NEAR(merged[0], each[0], 1e-9 * each[0]) << layout.front();
    EXPECT_LE(merged[1], each[1]) << layout.front();
    events += each[1];
    merged_events += merged[1];
  }
  EXPECT_LT(merged_events, events);
}

}  // namespace
}  // namespace orrery::estimates
