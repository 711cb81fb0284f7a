// Dependencies of the operations of a step.
#include "sim/estimates/step/step_programs.hpp"

#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "tests/sim/run.hpp"

namespace orrery::estimates {
namespace {

/// Ends the dependencies of all operations in an order that mixes neighbours.
TEST(StepPrograms, TheLastDependencyOfAnOperationIsTheLastOneOfItsOwn) {
  const LoadedScenario loaded = testing::small_scenario(1, 2, 4);
  StepGraph graph(loaded.scenario.job());
  Plan plan;
  plan.stages = graph.pipeline();
  plan.classes = {{.members = {0, 1}, .micro_batches = 3}, {.members = {2, 3}, .micro_batches = 5}};
  const std::vector<BlockPrice> prices(graph.blocks().size());
  StepPrograms programs(graph, plan, prices, false);
  Rng random(3);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> left;  // worker and op, per dependency
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> count;
    for (std::uint32_t worker = 0; worker < programs.workers(); ++worker) {
      const std::vector<std::uint32_t>& missing = programs.index(worker).missing();
      for (std::uint32_t op = 0; op < missing.size(); ++op) {
        EXPECT_EQ(programs.has_missing(worker, op), missing[op] > 0);
        count[{worker, op}] = missing[op];
        left.insert(left.end(), missing[op], {worker, op});
      }
    }
    for (std::size_t i = left.size(); i > 1; --i) std::swap(left[i - 1], left[random.below(i)]);
    for (const auto& each : left) {
      const bool is_last = --count[each] == 0;
      ASSERT_EQ(programs.satisfy_one(each.first, each.second), is_last);
      ASSERT_EQ(programs.has_missing(each.first, each.second), !is_last);
    }
    programs.reset_progress();
  }
}

}  // namespace
}  // namespace orrery::estimates
