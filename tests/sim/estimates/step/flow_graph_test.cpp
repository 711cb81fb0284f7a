#include "sim/estimates/step/flow_graph.hpp"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/job.hpp"
#include "sim/estimates/engine/max_min_shares.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/joint_run.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

/// Step of a job alone: executed on an engine, and by its flows.
struct BothSteps {
  double executed = 0, by_flows = 0;
  std::size_t operations = 0, points = 0;
};

/// Returns both steps of a job with these changes of the scenario; links are pinned if `pins`.
BothSteps steps_of(const std::vector<std::string>& overrides, bool pins) {
  const LoadedScenario loaded = testing::small_scenario(8, 2, 4, "", overrides);
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph(loaded.scenario.job());
  const EngineRoom room = engine_room(cluster, graph, true);
  const std::shared_ptr<Engine> engine = max_min_engine(room.hosts, room.links, 0);
  std::vector<GpuId> gpus;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) gpus.push_back({rank});
  Stepper stepper(cluster, graph, gpus, {}, [&](auto, auto) { return engine; });
  const HardwareState state;
  const std::vector<std::uint32_t> shares = even_split(graph.micro_batches(), graph.data());
  std::vector<LinkId> pinned;
  if (pins) pinned = stepper.links_crossed_by(state, shares);
  const auto step = stepper.planned(state, shares, pinned);
  const IterationRun run = run_iteration({.engine = *engine,
                                          .graph = graph,
                                          .plan = step->plan,
                                          .prices = stepper.prices(),
                                          .state = state});
  const FlowGraph flows = flow_graph(graph, step->plan, stepper.prices());
  const std::vector<FlowGroup> groups = flow_groups(
      {{.graph = graph, .plan = step->plan, .prices = stepper.prices(), .state = state}}, {&flows});
  return {run.duration, mean_steps(groups.at(0)).at(0), run.events, flows.points.size()};
}

TEST(FlowGraph, AStepAloneTakesAsLongAsItsExecution) {
  const std::vector<std::vector<std::string>> layouts{
      {"job.overlap=false"},
      {"job.overlap=true"},
      {"job.layout.shard=optimizer"},
      {"job.layout.shard=parameters"},
      {"job.layout.pipeline=4", "job.layout.data=2"},
      {"job.layout.pipeline=4", "job.layout.data=2", "job.layout.shard=optimizer"},
      {"job.layout.pipeline=1", "job.layout.data=8", "job.layout.shard=optimizer"},
      {"job.layout.pipeline=1", "job.layout.data=8", "job.layout.shard=parameters"},
      {"job.layout.pipeline=1", "job.layout.data=64", "job.layout.tensor=1",
       "job.global_batch=128"},
      {"job.input.read=1s", "job.input.workers=1"},
      {"job.global_batch=20"},
  };
  for (const std::vector<std::string>& layout : layouts) {
    for (const bool pins : {false, true}) {
      const BothSteps both = steps_of(layout, pins);
      EXPECT_NEAR(both.by_flows / both.executed, 1, 1e-8) << layout.front() << " pins " << pins;
    }
  }
}

TEST(FlowGraph, OnlyFlowsAndTheirMeetingsArePoints) {
  const BothSteps both =
      steps_of({"job.layout.pipeline=1", "job.layout.data=8", "job.layout.shard=optimizer"}, false);
  EXPECT_LT(both.points, both.operations);
}

TEST(FlowGraph, FlowsWithARateTakeAFixedTime) {
  const FlowGraph graph{.kinds = {{}, {}},
                        .points = {{.kind = 0, .bytes = 10, .earliest = 1, .after = {}},
                                   {.kind = 1, .bytes = 6, .earliest = 0, .after = {{0, 0.5}}},
                                   {.after = {{0, 4}, {1, 0.25}}}}};
  const FlowGraph one = with_fixed_flows(graph, {5, 0});
  ASSERT_EQ(one.points.size(), 2u);
  EXPECT_EQ(one.points[0].kind, 1u);
  EXPECT_DOUBLE_EQ(one.points[0].earliest, 3.5) << "1 s, 10 bytes at 5 bytes/s, 0.5 s";
  EXPECT_DOUBLE_EQ(one.points[1].earliest, 7) << "4 s after the first flow";
  const FlowGraph none = with_fixed_flows(graph, {5, 1});
  ASSERT_EQ(none.points.size(), 1u);
  EXPECT_DOUBLE_EQ(none.points[0].earliest, 9.75);
  EXPECT_NE(text_of(graph), text_of(one));
}

}  // namespace
}  // namespace orrery::estimates
