// The arithmetic of the GPU's training step, carried out by the CPU: against the CPU's own model.
#include "live/cuda/transformer_step.hpp"

#include <gtest/gtest.h>

#include "live/training/model.hpp"
#include "live/training/transformer.hpp"
#include "tests/live/check_gradient.hpp"
#include "tests/live/cuda/host_machine.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live::gpu {
namespace {

using M = BuiltinTransformer;
constexpr Shape kBuiltin{M::layers, M::hidden, M::heads, M::feed_forward, M::vocabulary};

class TransformerStepTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto parameters = cpu.parameters();
    ASSERT_EQ(step.size(), parameters.size());
    std::memcpy(step.parameters, parameters.data(), parameters.size_bytes());
  }
  double accumulate(const std::vector<std::uint8_t>& bytes, std::size_t sequences) {
    return step.accumulate_gradient(bytes.data(), sequences, bytes.size() / sequences - 1);
  }
  void expect_equal(const float* found, std::span<const float> expected, float most) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], most + 1e-4F * std::abs(expected[i])) << "at " << i;
    }
  }
  HostMachine machine;
  TransformerStep<HostMachine> step{machine, kBuiltin};
  Transformer<float> cpu{Rng(3)};
};

TEST_F(TransformerStepTest, LossAndGradientAreThoseOfTheCpusModel) {
  const auto bytes = sample_bytes(3 * 21);
  EXPECT_NEAR(accumulate(bytes, 3), cpu.accumulate_gradient({.bytes = bytes, .sequences = 3}),
              1e-3);
  expect_equal(step.gradient, cpu.gradient(), 1e-4F);
}

TEST_F(TransformerStepTest, GradientsOfMicroBatchesAddUpWhateverTheirShape) {
  const auto many = sample_bytes(2 * 33), few = sample_bytes(9);
  for (const auto& [bytes, sequences] : {std::pair(few, 1), {many, 2}, {few, 1}}) {
    const auto count = static_cast<std::size_t>(sequences);
    EXPECT_NEAR(accumulate(bytes, count),
                cpu.accumulate_gradient({.bytes = bytes, .sequences = count}), 1e-3);
  }
  expect_equal(step.gradient, cpu.gradient(), 1e-4F);
}

TEST_F(TransformerStepTest, StepsOfAdamLeadWhereTheCpusLead) {
  Adam adam(cpu.parameters().size(), 0.003);
  const auto bytes = sample_bytes(41);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    machine.zero(step.gradient, 4 * step.size());
    cpu.zero_gradient();
    accumulate(bytes, 1);
    cpu.accumulate_gradient({.bytes = bytes, .sequences = 1});
    step.update(adam_rate(0.003, i), 1.0F / 40);
    adam.update(cpu.parameters(), cpu.gradient(), 1.0F / 40);
  }
  // larger tolerance: Adam may divide by tiny values
  expect_equal(step.parameters, cpu.parameters(), 2e-3F);
  EXPECT_LT(accumulate(bytes, 1) / 40, 4.0);
}

TEST_F(TransformerStepTest, ShapesThatNoHeadFitsAreRefused) {
  EXPECT_THROW(TransformerStep<HostMachine>(machine, {1, 10, 4, 8, 256}), std::invalid_argument);
  EXPECT_THROW(TransformerStep<HostMachine>(machine, {1, 8, 0, 8, 256}), std::invalid_argument);
  EXPECT_THROW(step.accumulate_gradient(nullptr, 0, 4), std::invalid_argument);
}

}  // namespace
}  // namespace orrery::live::gpu
