// Job whose blocks have costs set by a test, executed without contention. For tests only.
#pragma once

#include <functional>
#include <vector>

#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::testing {

/// Job with given block costs.
struct PricedByHand {
  explicit PricedByHand(const LoadedScenario& loaded)
      : cluster(build_cluster(loaded.scenario.cluster(), loaded.places)),
        graph(loaded.scenario.job()),
        shares(graph.data(), graph.micro_batches() / graph.data()),
        prices(graph.blocks().size()) {
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
  }
  /// Every compute op of the programs, with the price of its block to be set.
  void price_ops(const std::function<double(const Op&, const Block&)>& seconds) {
    for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
      for (const Op& op : graph.program(stage, shares.front()).ops) {
        if (op.kind != OpKind::compute) continue;
        prices[op.block] = {.compute = {seconds(op, graph.blocks()[op.block])},
                            .tensor = {}, .moved = {}};
      }
    }
  }
  estimates::Plan plan(const estimates::HardwareState& state = {}, bool full_detail = false) {
    return estimates::make_plan({.cluster = cluster,
                                 .graph = graph,
                                 .profile = profile,
                                 .placement = placement,
                                 .state = state,
                                 .micro_batches = shares,
                                 .full_detail = full_detail});
  }
  /// Returns a plan in which communication takes no time.
  estimates::Plan silent_plan() {
    estimates::Plan plan = this->plan();
    for (estimates::CommPlan& comm : plan.comms) comm = {};
    return plan;
  }
  estimates::IterationRun run(const estimates::Plan& plan,
                              const estimates::HardwareState& state = {}) {
    estimates::FreeEngine engine(estimates::hosts_needed(graph),
                                 static_cast<std::uint32_t>(plan.slots.size()));
    return estimates::run_iteration(
        {.engine = engine, .graph = graph, .plan = plan, .prices = prices, .state = state});
  }

  const estimates::CostProfile profile = estimates::cost_profile("H100");
  Cluster cluster;
  StepGraph graph;
  std::vector<GpuId> placement;
  std::vector<std::uint32_t> shares;
  std::vector<estimates::BlockPrice> prices;
};

}  // namespace orrery::testing
