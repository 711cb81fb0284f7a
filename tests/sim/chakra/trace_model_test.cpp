#include "sim/chakra/trace_model.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/sim/run.hpp"

namespace orrery::sim {
namespace {

using namespace testing;

TEST(TraceModel, ACollectiveTakesItsClosedFormAndEqualPassesAreCounted) {
  const Report report = simulate_example("allreduce-ring-1024.yaml",
                                         {"run.steps=5", "cluster.fabric.line_rate=true"});
  EXPECT_EQ(report.ranks(), 1024u);
  EXPECT_EQ(report.rank_classes(), 1u);
  EXPECT_EQ(report.steps_completed(), 5u);
  EXPECT_EQ(report.iterations_simulated(), 1u);
  EXPECT_EQ(report.iterations_fast_forwarded(), 4u);
  // Eight rings; of a ring's edges one in eight leaves the node, at 50 GB/s.
  const double rounds = 2 * 1023;
  const double bytes = double{1u << 30} * rounds / 1024 / 8;
  const double latency = rounds * (7 * 0.5e-6 + 2e-6) / 8;
  EXPECT_NEAR(report.step_time_s() / (bytes / 50e9 + latency), 1, 1e-9);
  EXPECT_NEAR(report.elapsed_s(), 5 * report.step_time_s(), 1e-8);
  EXPECT_FALSE(report.has_mfu());
  EXPECT_FALSE(report.has_micro_batches_lost());
  EXPECT_FALSE(report.has_cost_usd()) << "the cluster has no price";
  // The protocol adds longer rounds and the fill of a pipeline of 1,024 ranks.
  const Report priced = simulate_example("allreduce-ring-1024.yaml", {});
  EXPECT_GT(priced.step_time_s(), 1.5 * report.step_time_s());
  EXPECT_LT(priced.step_time_s(), 2.5 * report.step_time_s());
}

TEST(TraceModel, SixteenThousandRanksAreOneClassAndThreeEvents) {
  const Report report = simulate_example("allreduce-ring-1024.yaml", {"collective.ranks=16384"});
  EXPECT_EQ(report.rank_classes(), 1u);
  EXPECT_EQ(report.events(), 3u);
}

TEST(TraceModel, MoreThanAHundredThousandRanksChooseTheirAlgorithmAsOneClass) {
  const auto of = [](std::uint32_t ranks, const char* algorithm) {
    return simulate_example(
        "allreduce-ring-1024.yaml",
        {fmt::format("cluster.nodes={}", ranks / 8), fmt::format("collective.ranks={}", ranks),
         fmt::format("collective.algorithm={}", algorithm)});
  };
  for (const std::uint32_t ranks : {131'072u, 262'144u}) {
    const Report chosen = of(ranks, "automatic"), ring = of(ranks, "ring"),
                 tree = of(ranks, "tree");
    EXPECT_EQ(chosen.ranks(), ranks);
    EXPECT_EQ(chosen.rank_classes(), 1u) << ranks;
    EXPECT_LE(chosen.step_time_s(), std::min(ring.step_time_s(), tree.step_time_s())) << ranks;
    EXPECT_GT(chosen.step_time_s(), 0) << ranks;
  }
}

TEST(TraceModel, WhatSharesASizeWithARankCountIsWhatOneRankPutsIn) {
  Collective collective;
  collective.set_kind("all-gather");
  collective.set_size(4096);
  const ChakraTrace trace = collective_trace(collective, 4);
  EXPECT_EQ(trace.programs[0].ops[0].bytes, 1024u);
  EXPECT_EQ(trace.groups[0], (std::vector<std::uint32_t>{0, 1, 2, 3}));
  collective.set_kind("all-to-all");
  EXPECT_EQ(collective_trace(collective, 4).programs[0].ops[0].bytes, 4096u);
}

}  // namespace
}  // namespace orrery::sim
