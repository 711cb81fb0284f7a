#include "live/programs/calibration/example_recording.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Adds an operation of a kernel of kind time.
RecordedOp& add_compute(RecordedStep& step, const char* phase, std::uint32_t pass, double seconds) {
  step.add_kernels()->set_time(seconds);
  RecordedOp& op = *step.add_ops();
  op.set_phase(phase);
  op.set_micro_batch(pass);
  op.add_kernels(static_cast<std::uint32_t>(step.kernels_size() - 1));
  op.add_counts(1);
  return op;
}

/// Two passes of a batch of 4 examples, an exchange in the second backward pass, and an update.
RecordedStep two_passes() {
  RecordedStep step;
  step.set_ranks(2);
  step.set_micro_batches(2);
  step.set_tokens(100);
  add_compute(step, "forward", 0, 0.4);
  add_compute(step, "backward", 0, 0.8);
  add_compute(step, "forward", 1, 0.4);
  RecordedOp& sum = *step.add_ops();
  sum.set_phase("backward");
  sum.set_micro_batch(1);
  sum.set_collective("all_reduce");
  sum.set_bytes(1e6);
  sum.set_size(2);
  sum.set_stride(1);
  sum.add_after(2);
  add_compute(step, "backward", 1, 0.8).add_after(3);
  add_compute(step, "update", 0, 0.1).add_after(3);
  return step;
}

/// Returns the seconds of the computation in the passes of one micro-batch.
double seconds_of(const RecordedStep& step, std::uint32_t micro_batch) {
  double sum = 0;
  for (const RecordedOp& op : step.ops()) {
    if (op.phase() == "update" || op.micro_batch() != micro_batch) continue;
    for (const std::uint32_t kernel : op.kernels()) {
      sum += step.kernels(static_cast<int>(kernel)).time();
    }
  }
  return sum;
}

TEST(ExampleRecording, EachExampleHasItsPartOfAllPasses) {
  const RecordedStep step = per_example_step(two_passes(), 4);
  EXPECT_EQ(step.micro_batches(), 2u);
  EXPECT_NEAR(seconds_of(step, 0), 2.4 / 4, 1e-12);
  EXPECT_NEAR(seconds_of(step, 1), 2.4 / 4, 1e-12);
  EXPECT_EQ(step.tokens(), 50u) << "of an example of both batches";
}

TEST(ExampleRecording, CollectivesAndTheUpdateBelongToTheLastExample) {
  const RecordedStep step = per_example_step(two_passes(), 4);
  ASSERT_EQ(step.ops_size(), 4 + 6);
  int collective = -1;
  for (int i = 0; i < step.ops_size(); ++i) {
    for (const std::uint32_t before : step.ops(i).after()) {
      EXPECT_LT(before, static_cast<std::uint32_t>(i));
    }
    if (step.ops(i).collective().empty()) continue;
    EXPECT_EQ(collective, -1);
    collective = i;
    EXPECT_EQ(step.ops(i).micro_batch(), 1u);
  }
  ASSERT_GE(collective, 0);
  const RecordedOp& update = step.ops(step.ops_size() - 1);
  EXPECT_EQ(update.phase(), "update");
  EXPECT_EQ(update.after(0), static_cast<std::uint32_t>(collective));
  EXPECT_NEAR(step.kernels(static_cast<int>(update.kernels(0))).time(), 0.1, 1e-12);
  EXPECT_EQ(step.ops(3).after_size(), 0) << "an early example exchanges nothing";
}

TEST(ExampleRecording, ShardedParametersAreRefused) {
  RecordedStep step = two_passes();
  step.set_sharded(true);
  EXPECT_THROW(per_example_step(step, 4), Error);
}

}  // namespace
}  // namespace orrery::live
