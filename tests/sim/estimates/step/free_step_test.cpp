#include "sim/estimates/step/free_step.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"

namespace orrery::estimates {
namespace {

std::vector<BlockPrice> a_second_each(const StepGraph& graph) {
  return std::vector<BlockPrice>(graph.blocks().size(), {Seconds{1}, Seconds{}, Bytes{}});
}

/// Every block takes a second, every transfer half of one, every collective two.
FreeStep by_hand(StepGraph& graph, std::uint32_t micro_batches) {
  return free_step({.graph = graph,
                    .micro_batches = micro_batches,
                    .prices = a_second_each(graph),
                    .transfer = [](auto, auto, auto) { return FreeTime{0, 0.5}; },
                    .collective = [](auto, auto, auto) { return FreeTime{0, 2}; }});
}

TEST(FreeStep, OneRankComputesAndWaitsForNobody) {
  StepGraph graph(small_job(1, 1, 1, 4));
  const FreeStep step = by_hand(graph, 4);
  EXPECT_DOUBLE_EQ(step.duration, 9) << "four times forward and backward, and the update";
  EXPECT_DOUBLE_EQ(step.stages.front().compute, 9);
  EXPECT_DOUBLE_EQ(step.stages.front().pipeline, 0);
}

TEST(FreeStep, APipelineFillsAndDrains) {
  StepGraph graph(small_job(1, 2, 1, 1));
  const FreeStep step = by_hand(graph, 1);
  EXPECT_DOUBLE_EQ(step.duration, 6) << "there and back with two ways, then the update";
  EXPECT_DOUBLE_EQ(step.stages[0].pipeline, 3) << "while the second stage works";
  EXPECT_DOUBLE_EQ(step.stages[1].pipeline, 3) << "before it, and after it";
}

TEST(FreeStep, WhatTheTimeWentIntoIsTheWholeStep) {
  for (const std::uint32_t stages : {1, 2, 4}) {
    for (const std::uint32_t data : {1, 4}) {
      StepGraph graph(small_job(1, stages, data, 8 * data));
      const FreeStep step = by_hand(graph, 8);
      for (const StageTime& stage : step.stages) {
        EXPECT_NEAR(stage.compute + stage.inside + stage.exposed + stage.pipeline + stage.input,
                    step.duration, 1e-9);
      }
      EXPECT_EQ(step.stages[0].exposed > 0, data > 1);
    }
  }
}

TEST(FreeStep, ACollectiveWaitsForTheSlowestClass) {
  StepGraph graph(small_job(1, 2, 4, 4));
  const auto with = [&](std::uint32_t classes) {
    return free_step({.graph = graph,
                      .micro_batches = 1,
                      .classes = classes,
                      .prices = a_second_each(graph),
                      .transfer = [](auto of, auto, auto) { return FreeTime{0, 0.5 + 3.0 * of}; },
                      .collective = [](auto, auto, auto) { return FreeTime{0, 2}; }})
        .duration;
  };
  EXPECT_DOUBLE_EQ(with(2), with(1) + 6) << "three seconds there and three back";
}

}  // namespace
}  // namespace orrery::estimates
