#include "policies/compression/memory_aware.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/compression/codec_rig.hpp"

namespace orrery {
namespace {

using test::CodecRig;
using test::kGpuMemory;

Sample<double> measured(double value) {
  return {.value = value, .age = 0, .origin = Origin::measured};
}

/// Values of the samples of every step.
struct Measured {
  double bandwidth = 1e7, memory = 0.1 * kGpuMemory, variance = 1;
  double gradient = 4e6;     ///< bytes
  double coded_factor = 0;   ///< duration in a code over that without; 0: as the bytes say
};

class MemoryAwareTest : public ::testing::Test {
 protected:
  void begin(const MemoryAwareParameters& parameters = {}) {
    Context context{rig_.rng, {}};
    policy_.start(context, test::codec_cluster(), &parameters);
  }
  static MemoryAwareParameters quick() {
    MemoryAwareParameters out;
    out.set_warm_up_steps(4);
    out.set_cooldown_steps(5);
    return out;
  }
  /// `steps` more steps; all decisions.
  std::vector<Decision> run(int steps, const Measured& what) {
    std::vector<Decision> all;
    for (int i = 0; i < steps; ++i) {
      sample(what);
      for (Decision& each : rig_.show_events(policy_, {StepsDone{{0}, rig_.job().step}})) {
        all.push_back(std::move(each));
      }
    }
    return all;
  }
  CodecRule rule() const { return rule_for(rig_.codecs(), kMatrices); }

  CodecRig rig_;
  MemoryAware policy_;

 private:
  void sample(const Measured& what) {
    toy::HandMade& samples = rig_.samples;
    samples.clear();
    for (std::uint32_t i = 0; i < 4; ++i) {
      samples.of_devices.push_back({.gpu = {i}, .utilization = {}, .memory_bandwidth = {},
                                    .memory_used = {}, .power = {}});
      if (what.memory > 0) samples.of_devices.back().memory_used = measured(what.memory);
      samples.of_links.push_back({.from = {i}, .to = {(i + 1) % 4}, .latency = measured(1e-5),
                                  .bandwidth = measured(what.bandwidth)});
      RankSample& rank = samples.of_ranks.emplace_back();
      rank.rank = {i};
      if (what.variance >= 0) rank.gradient_variance = measured(what.variance);
    }
    const auto count = static_cast<std::uint64_t>(what.gradient / 4);
    const double plain = exchange_bytes({}, count, 4) / what.bandwidth;
    const bool coded = rule().codec != Codec::none;
    const double factor =
        coded && what.coded_factor > 0 ? what.coded_factor : codec_ratio(rule(), count);
    samples.of_collectives = {{.job = {0}, .step = rig_.job().step,
                               .kind = CollectiveKind::all_reduce, .algorithm = {},
                               .bytes = what.gradient, .ranks = 4, .exposed = factor * plain}};
  }
};

TEST_F(MemoryAwareTest, ASlowLinkGetsInt4AfterTheWarmUpAndVectorsStayAsTheyAre) {
  begin(quick());
  EXPECT_TRUE(run(3, {}).empty());
  const auto decided = run(10, {});
  ASSERT_EQ(decided.size(), 1u);
  EXPECT_EQ(decided[0].at_step, 5u);
  EXPECT_NE(decided[0].why.find("4 MB between 4 ranks at 10 MB/s"), std::string::npos)
      << decided[0].why;
  EXPECT_EQ(rule().codec, Codec::int4);
  EXPECT_TRUE(rule().error_feedback);
  EXPECT_EQ(rule_for(rig_.codecs(), kVectors).codec, Codec::none);
  EXPECT_TRUE(rig_.is_resting());
}

TEST_F(MemoryAwareTest, AFastLinkGetsNoCode) {
  begin(quick());
  EXPECT_TRUE(run(20, {.bandwidth = 5e12}).empty());
  EXPECT_TRUE(rig_.is_resting());
}

TEST_F(MemoryAwareTest, WithoutMemoryForErrorFeedbackNothingBelowEightBits) {
  begin(quick());
  run(10, {.memory = 0.947 * kGpuMemory});
  EXPECT_EQ(rule().codec, Codec::int8);
  EXPECT_FALSE(rule().error_feedback);
}

TEST_F(MemoryAwareTest, WhatIsNotMeasuredIsNotAssumed) {
  begin(quick());
  run(10, {.memory = 0});
  EXPECT_EQ(rule().codec, Codec::int8);
  EXPECT_FALSE(rule().error_feedback);
}

TEST_F(MemoryAwareTest, GradientsThatDisagreeBearNothingBelowEightBits) {
  begin(quick());
  run(10, {.variance = 51});
  EXPECT_EQ(rule().codec, Codec::int8);
  EXPECT_TRUE(rule().error_feedback);
}

TEST_F(MemoryAwareTest, ALinkThatRecoversGetsItsGradientsBackAsTheyAre) {
  begin(quick());
  run(10, {});
  EXPECT_EQ(rule().codec, Codec::int4);
  run(60, {.bandwidth = 5e12});
  EXPECT_EQ(rule().codec, Codec::none);
}

TEST_F(MemoryAwareTest, ACodeThatShortensNothingIsTakenBackAndNotTriedAgain) {
  begin(quick());
  const auto decided = run(80, {.coded_factor = 1.2});
  EXPECT_EQ(rule().codec, Codec::none);
  ASSERT_EQ(decided.size(), 4u) << "int4, int8, bf16, none";
  EXPECT_NE(decided[1].why.find("int4 took"), std::string::npos) << decided[1].why;
}

TEST_F(MemoryAwareTest, ALinkThatDegradesIsNotTheCodesFault) {
  begin(quick());
  run(10, {});
  run(40, {.bandwidth = 1e6});  // every exchange takes longer than any before, in a code too
  EXPECT_EQ(rule().codec, Codec::int4);
}

TEST_F(MemoryAwareTest, SavedAndLoadedItDecidesTheSame) {
  begin(quick());
  run(3, {});
  Archive saved, again;
  policy_.save(saved);
  begin(quick());
  policy_.load(saved);
  policy_.save(again);
  EXPECT_EQ(saved, again);
  EXPECT_EQ(run(2, {}).size(), 1u);
  EXPECT_THROW(policy_.load(saved + "x"), Error);
}

}  // namespace
}  // namespace orrery
