#include "sim/estimates/step/stepper.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/model.hpp"

namespace orrery::estimates {
namespace {

struct Ground {
  explicit Ground(const LoadedScenario& loaded)
      : cluster(build_cluster(loaded.scenario.cluster(), loaded.places)),
        graph(loaded.scenario.job()) {
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
  }
  Cluster cluster;
  StepGraph graph;
  std::vector<GpuId> placement;
};

TEST(Stepper, EqualStatesAreSimulatedOnce) {
  const auto n = testing::numbers_in_child([] {
    Ground ground(testing::small_scenario(1, 1, 8));
    Stepper stepper(ground.cluster, ground.graph, ground.placement, {}, sim::simgrid_engine);
    const std::vector<std::uint32_t> even(8, 8);
    HardwareState slow;
    slow.slow[2] = 2;
    const double calm = stepper.step({}, even)->run.duration;
    const double hit = stepper.step(slow, even)->run.duration;
    const double again = stepper.step({}, even)->run.duration;
    return std::vector<double>{calm, hit, again, double(stepper.simulated()),
                               double(stepper.most_classes())};
  });
  EXPECT_EQ(n.at(0), n.at(2));
  EXPECT_GT(n.at(1), 1.5 * n.at(0));
  EXPECT_EQ(n.at(3), 2);
  EXPECT_EQ(n.at(4), 2);
}

/// Durations without and with contention.
std::vector<double> free_and_shared(const LoadedScenario& loaded) {
  return testing::numbers_in_child([&] {
    Ground ground(loaded);
    const std::vector<std::uint32_t> even(ground.graph.data(),
                                          ground.graph.micro_batches() / ground.graph.data());
    Stepper free(ground.cluster, ground.graph, ground.placement, {}, free_engine);
    Stepper shared(ground.cluster, ground.graph, ground.placement, {}, sim::simgrid_engine);
    return std::vector<double>{free.step({}, even)->run.duration,
                               shared.step({}, even)->run.duration};
  });
}

TEST(Stepper, WithoutContentionBothEnginesAgree) {
  for (const char* shard : {"nothing", "optimizer", "parameters"}) {
    const auto t = free_and_shared(testing::small_scenario(
        8, 1, 8, {}, {std::string("job.layout.shard=") + shard}));
    EXPECT_NEAR(t.at(0), t.at(1), 1e-9 * t.at(1)) << shard;
  }
}

TEST(Stepper, ShippedExampleIsPricedWithinHalfAPercentWithoutAnEngineThatShares) {
  const auto t = free_and_shared(load_scenario(
      std::string(ORRERY_SOURCE_DIR) + "/examples/llama3-70b-512-h100.yaml", {}));
  EXPECT_NEAR(t.at(0), t.at(1), 0.005 * t.at(1));
}

TEST(Stepper, FullDetailSimulatesEveryStep) {
  const auto n = testing::numbers_in_child([] {
    Ground ground(testing::small_scenario(1, 1, 8));
    Stepper stepper(ground.cluster, ground.graph, ground.placement, {.full_detail = true},
                    sim::simgrid_engine);
    const std::vector<std::uint32_t> even(8, 8);
    const double first = stepper.step({}, even)->run.duration;
    const double second = stepper.step({}, even)->run.duration;
    return std::vector<double>{first, second, double(stepper.simulated())};
  });
  EXPECT_NEAR(n.at(0), n.at(1), 1e-9);
  EXPECT_EQ(n.at(2), 2);
}

TEST(Stepper, MovedMicroBatchesMoveTime) {
  const auto n = testing::numbers_in_child([] {
    Ground ground(testing::small_scenario(1, 1, 8));
    Stepper stepper(ground.cluster, ground.graph, ground.placement, {}, sim::simgrid_engine);
    std::vector<std::uint32_t> uneven(8, 8);
    uneven[0] = 4;
    uneven[1] = 12;
    const auto step = stepper.step({}, uneven);
    const auto at = [&](std::uint32_t replica) {
      return step->run.workers[step->plan.class_of[replica]].passes;
    };
    return std::vector<double>{at(0), at(1), at(2), stepper.nominal_micro_batch_time()};
  });
  EXPECT_NEAR(n.at(1) / n.at(0), 3, 0.05);
  EXPECT_NEAR(n.at(2) / 8, n.at(3), 0.05 * n.at(3));
}

/// Exchange of two ranks of the built-in model over links of `rate`, and the bytes of the step.
struct Exchange {
  double step_s, bytes;
};
Exchange exchange(const std::vector<CodecRule>& rules, double rate, bool full_detail = false) {
  const auto n = testing::numbers_in_child([&] {
    Ground ground(load_scenario(std::string(ORRERY_SOURCE_DIR) + "/examples/straggler-4-ranks.yaml",
                                {}));
    Stepper stepper(ground.cluster, ground.graph, ground.placement,
                    {.full_detail = full_detail, .machine = {.link_limit = rate}},
                    sim::simgrid_engine);
    stepper.set_codecs(rules);
    const auto step = stepper.step({}, {10, 10, 10, 10});
    return std::vector<double>{step->run.duration, step->wire_bytes};
  });
  return {n.at(0), n.at(1)};
}

TEST(Stepper, BytesOfACodeAreTheFormulas) {
  constexpr std::uint64_t values = builtin_parameter_count();
  EXPECT_DOUBLE_EQ(exchange({}, 1e9).bytes, 4 * exchange_bytes({}, values, 4));
  for (const Codec codec : {Codec::bf16, Codec::int8, Codec::int4, Codec::top_k}) {
    const CodecRule rule{.codec = codec};
    EXPECT_DOUBLE_EQ(exchange({rule}, 1e9).bytes, 4 * exchange_bytes(rule, values, 4));
  }
}

TEST(Stepper, ACodeGainsOnASlowLinkAndLosesOnAFastOne) {
  const CodecRule power_sgd{.codec = Codec::power_sgd};
  EXPECT_LT(exchange({power_sgd}, 1e7).step_s, exchange({}, 1e7).step_s - 0.05);
  EXPECT_GT(exchange({power_sgd}, 1e12).step_s, exchange({}, 1e12).step_s + 0.001);
}

TEST(Stepper, CodesAreFoldedAsEverythingElse) {
  const CodecRule int4{.codec = Codec::int4};
  const Exchange folded = exchange({int4}, 1e7), full = exchange({int4}, 1e7, true);
  EXPECT_NEAR(folded.step_s, full.step_s, 1e-9);
  EXPECT_DOUBLE_EQ(folded.bytes, full.bytes);
}

TEST(Stepper, StepsUnderOtherCodesAreNotMixedUp) {
  const auto n = testing::numbers_in_child([] {
    Ground ground(load_scenario(std::string(ORRERY_SOURCE_DIR) + "/examples/straggler-4-ranks.yaml",
                                {}));
    Stepper stepper(ground.cluster, ground.graph, ground.placement,
                    {.machine = {.link_limit = 1e7}}, sim::simgrid_engine);
    std::vector<double> times;
    for (const std::vector<CodecRule>& rules :
         {std::vector<CodecRule>{}, {{.codec = Codec::int4}}, {}}) {
      stepper.set_codecs(rules);
      times.push_back(stepper.step({}, {10, 10, 10, 10})->run.duration);
    }
    times.push_back(double(stepper.simulated()));
    return times;
  });
  EXPECT_LT(n.at(1), n.at(0));
  EXPECT_EQ(n.at(0), n.at(2));
  EXPECT_EQ(n.at(3), 2) << "one of each kind, and the first one from memory";
}

TEST(Stepper, AMeasuredMachineSaysWhatUpdateAndControlTake) {
  const auto n = testing::numbers_in_child([] {
    Ground ground(load_scenario(std::string(ORRERY_SOURCE_DIR) + "/examples/straggler-4-ranks.yaml",
                                {}));
    MachineCosts machine{.kernels = cost_profile("H100"), .update = Seconds{1e-8},
                         .control = Seconds{2e-3}};
    Stepper stepper(ground.cluster, ground.graph, ground.placement, {.machine = machine},
                    sim::simgrid_engine);
    HardwareState slow;
    slow.slow[2] = 3;
    return std::vector<double>{stepper.step({}, {10, 10, 10, 10})->run.workers[0].tail,
                               stepper.step(slow, {10, 10, 10, 10})->run.workers[1].tail,
                               stepper.rest()};
  });
  EXPECT_NEAR(n.at(0), 1e-8 * builtin_parameter_count() + 2e-3, 1e-9);
  EXPECT_NEAR(n.at(1), n.at(0), 1e-9) << "a straggler's micro-batches are slow, nothing else";
  EXPECT_EQ(n.at(2), 2e-3);
}

TEST(Stepper, SlowerNicHasLessBandwidth) {
  const auto n = testing::numbers_in_child([] {
    Ground ground(testing::small_scenario(1, 1, 8));
    const Stepper stepper(ground.cluster, ground.graph, ground.placement, {}, sim::simgrid_engine);
    const LinkId nic = ground.cluster.nic_out({0}, 3);
    HardwareState state;
    state.link_slow[nic.value] = 4;
    return std::vector<double>{stepper.effective_bandwidth(nic, {}),
                               stepper.effective_bandwidth(nic, state)};
  });
  EXPECT_DOUBLE_EQ(n.at(0), 4 * n.at(1));
}

}  // namespace
}  // namespace orrery::estimates
