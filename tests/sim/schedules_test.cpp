// Whole steps against closed forms, without contention: pipeline bubbles, exposed gathering of
// sharded parameters, reading of data, sends that block; and no layout that waits for itself.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/sim/priced_by_hand.hpp"

namespace orrery::sim {
namespace {

using testing::PricedByHand;
using testing::small_scenario;

constexpr double kForward = 0.003, kInput = 0.003, kWeight = 0.003;

/// Returns the time by layers: a layer's forward pass takes 3 ms, each half of the backward pass
/// too.
double by_layers(const Op& op, const Block& block) {
  if (op.phase == Phase::forward) return block.layers * kForward;
  if (op.phase != Phase::backward) return 0;
  double flop_passes = 0;  // 1 of gradients of inputs, 1 of weights
  for (const Kernel& kernel : block.kernels) {
    if (kernel.name == KernelName::mlp_up_dgrad) flop_passes += kernel.repeat;
    if (kernel.name == KernelName::mlp_up_wgrad) flop_passes += kernel.repeat;
  }
  return flop_passes * kInput;
}

double passes_end(const std::vector<std::string>& overrides, int pipeline, int data = 1) {
  PricedByHand bench(small_scenario(1, pipeline, data, {}, overrides));
  bench.price_ops(by_layers);
  const estimates::IterationRun run = bench.run(bench.silent_plan());
  return run.duration;
}

// Eight micro-batches of eight layers. A stage alone works m (F + B).

TEST(Schedules, OneF1BBubble) {
  for (const int p : {1, 2, 4, 8}) {
    const double work = 8 * (8.0 / p) * (kForward + kInput + kWeight);
    EXPECT_NEAR(passes_end({}, p), work * (1 + (p - 1) / 8.0), 1e-9) << p;
  }
}

TEST(Schedules, InterleavedBubbleIsSmallerByTheChunks) {
  for (const auto& [p, v] : {std::pair{2, 2}, {2, 4}, {4, 2}}) {
    const double work = 8 * (8.0 / p) * (kForward + kInput + kWeight);
    const std::string chunks = "job.layout.chunks=" + std::to_string(v);
    EXPECT_NEAR(passes_end({chunks}, p), work * (1 + (p - 1) / (8.0 * v)), 1e-9) << p << " " << v;
  }
}

TEST(Schedules, ZeroBubbleLeavesAThirdOfTheBubble) {
  for (const int p : {2, 4, 8}) {
    const double each = 8.0 / p * (kForward + kInput + kWeight);
    const double bubble = (p - 1) * 8.0 / p * (kForward + kInput - kWeight);
    EXPECT_NEAR(bubble, (p - 1) * each / 3, 1e-12);
    EXPECT_NEAR(passes_end({"job.layout.schedule=zero-bubble"}, p), 8 * each + bubble, 1e-9) << p;
  }
}

TEST(Schedules, RemainderOfLayersGoesToTheFirstStages) {
  // Ten layers on four stages: 3, 3, 2, 2. The second is busy all the time from when the first
  // has let it begin until it lets the first end.
  const double t = passes_end({"job.model.layers=10"}, 4);
  const double layer = kForward + kInput + kWeight;
  EXPECT_GE(t, (8 * 3 + 3) * layer - 1e-9);
  EXPECT_LT(t, (8 + 3) * 3 * layer - 1e-9);
}

// ---- sharded parameters -------------------------------------------------------------------------

struct Fsdp {
  PricedByHand bench;
  std::vector<double> gather, reduce;  ///< indexed by layer
  double optimizer = 0;

  explicit Fsdp(const std::vector<std::string>& overrides, double forward, double backward)
      : bench(small_scenario(1, 1, 8, {}, with(overrides))) {
    bench.price_ops([&](const Op& op, const Block&) {
      return op.phase == Phase::forward ? forward : op.phase == Phase::backward ? backward : 0;
    });
    for (const Op& op : bench.graph.program(0, bench.shares.front()).ops) {
      if (op.kind != OpKind::collective || op.micro_batch > 0) continue;
      // A ring over the eight GPUs of a node.
      const double rate =
          estimates::link_rate(bench.cluster, bench.profile, bench.cluster.nvlink_out({0}));
      const double t = 7 * bench.cluster.latency({0}, {1}).value + op.bytes.value * 7 / 8 / rate;
      if (op.phase == Phase::forward) gather.push_back(t);
      if (op.phase == Phase::gradient) reduce.push_back(t);
    }
    std::reverse(reduce.begin(), reduce.end());
  }
  static std::vector<std::string> with(std::vector<std::string> overrides) {
    overrides.push_back("job.layout.shard=parameters");
    overrides.push_back("job.global_batch=8");
    return overrides;
  }
  double duration() { return bench.run(bench.plan()).duration; }
};

/// Computing each layer outlasts gathering the next and reducing the last one: only the first
/// gathering of each pass and the last reduction show.
TEST(Schedules, FsdpShowsItsEndsWhereComputingIsLong) {
  Fsdp job({}, 0.05, 0.1);
  ASSERT_EQ(job.gather.size(), 8u);
  EXPECT_NEAR(job.duration(),
              8 * (0.05 + 0.1) + job.gather.front() + job.gather.back() + job.reduce.front(), 1e-9);
}

/// Computing takes nothing: every collective shows.
TEST(Schedules, FsdpShowsEverythingWhereComputingIsNothing) {
  Fsdp job({}, 0, 0);
  double all = 0;
  for (std::size_t i = 0; i < 8; ++i) all += 2 * job.gather[i] + job.reduce[i];
  EXPECT_NEAR(job.duration(), all, 1e-9);
}

TEST(Schedules, FsdpWithoutPrefetchShowsEveryGathering) {
  Fsdp job({"job.overlaps.parameters=false"}, 0.05, 0.1);
  double gathering = 0;
  for (const double t : job.gather) gathering += 2 * t;
  // Reductions end while the layer after them is computed, and gathering waits for them.
  EXPECT_NEAR(job.duration() - 8 * 0.15 - job.reduce.front(), gathering,
              1e-9 + 8 * *std::max_element(job.reduce.begin(), job.reduce.end()));
  EXPECT_GE(job.duration(), 8 * 0.15 + gathering - 1e-9);
}

TEST(Schedules, UpdatedParametersAreGatheredBesideTheFirstForwardPass) {
  const auto duration = [](const char* early, double forward) {
    PricedByHand bench(small_scenario(1, 1, 8, {},
                                      {"job.layout.shard=optimizer", "job.bucket=64 MiB",
                                       std::string("job.overlaps.parameters=") + early}));
    bench.price_ops([&](const Op& op, const Block& block) {
      return op.phase == Phase::forward ? forward * block.layers / 8 : 0;
    });
    return bench.run(bench.plan()).duration;
  };
  // Only the first bucket is exposed with long forward passes.
  const double shown = duration("true", 1) - duration("true", 0);
  EXPECT_LT(duration("true", 1), duration("false", 1));
  EXPECT_LT(shown, 8.0);
  EXPECT_NEAR(duration("true", 0), duration("false", 0), 1e-9);
}

// ---- input and blocking sends -------------------------------------------------------------------

TEST(Schedules, StepIsAsLongAsReadingWhereThatIsSlow) {
  const auto duration = [](const char* read, const char* prefetch) {
    PricedByHand bench(small_scenario(
        1, 1, 1, {},
        {std::string("job.input.read=") + read, std::string("job.input.prefetch=") + prefetch}));
    bench.price_ops([](const Op& op, const Block&) {
      return op.phase == Phase::forward ? 0.01 : op.phase == Phase::backward ? 0.02 : 0.005;
    });
    return bench.run(bench.silent_plan()).duration;
  };
  const double compute = 8 * 0.03 + 0.005;
  EXPECT_NEAR(duration("1 ms", "2"), compute, 1e-9);
  EXPECT_NEAR(duration("1 ms", "0"), compute + 8 * 0.001, 1e-9);
  EXPECT_NEAR(duration("100 ms", "2"), 8 * 0.1, 1e-9);
}

TEST(Schedules, SendsThatBlockAreWaitedFor) {
  const auto duration = [](const char* overlap) {
    PricedByHand bench(
        small_scenario(1, 2, 1, {}, {std::string("job.overlaps.pipeline=") + overlap}));
    bench.price_ops(by_layers);
    return bench.run(bench.plan()).duration;
  };
  EXPECT_GT(duration("false"), duration("true"));
}

// ---- every layout -------------------------------------------------------------------------------

RC_GTEST_PROP(Schedules, EveryLayoutComesToItsEnd, ()) {
  const int pipeline = *rc::gen::element(1, 2, 4), data = *rc::gen::element(1, 2, 4);
  const int count = *rc::gen::inRange(1, 9);
  std::vector<std::string> overrides{"job.global_batch=" + std::to_string(count * data)};
  const auto maybe = [&](const std::string& text) {
    if (*rc::gen::arbitrary<bool>()) overrides.push_back(text);
  };
  const bool interleaved = pipeline > 1 && *rc::gen::arbitrary<bool>();
  if (interleaved) overrides.push_back("job.layout.chunks=2");
  if (!interleaved) maybe("job.layout.schedule=zero-bubble");
  overrides.push_back("job.layout.shard=" + *rc::gen::element<std::string>(
                                                "nothing", "optimizer", "gradients", "parameters"));
  if (data == 4) maybe("job.layout.shard_group=2");
  maybe("job.layout.context=2");
  maybe("job.layout.order=pipeline-last");
  maybe("job.overlap=false");
  maybe("job.overlaps.parameters=false");
  maybe("job.overlaps.pipeline=false");
  maybe("job.input.read=1 ms");
  overrides.push_back("cluster.nodes=8");
  PricedByHand bench(small_scenario(*rc::gen::element(1, 2), pipeline, data, {}, overrides));
  bench.price_ops(by_layers);
  if (*rc::gen::arbitrary<bool>()) {  // shares are unequal after a loss
    for (std::uint32_t& share : bench.shares) share = *rc::gen::inRange(1u, 13u);
  }
  const estimates::IterationRun folded = bench.run(bench.plan());
  const estimates::IterationRun full = bench.run(bench.plan({}, true));
  RC_ASSERT(!folded.cut_short && !full.cut_short);
  RC_ASSERT(folded.workers.size() <= full.workers.size());
  RC_ASSERT(full.workers.size() == bench.graph.data() * bench.graph.pipeline());
}

}  // namespace
}  // namespace orrery::sim
