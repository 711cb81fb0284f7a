// Programs of a recorded step: repeated passes, one exchange of gradients, other data-parallel
// sizes.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/traces/recorded_job.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

std::map<std::pair<OpKind, Phase>, int> counts(const Program& program) {
  std::map<std::pair<OpKind, Phase>, int> out;
  for (const Op& op : program.ops) ++out[{op.kind, op.phase}];
  return out;
}

TEST(StepReplay, RecordedMicroBatchGivesTheRecordedOperations) {
  StepGraph graph(recorded_job(recorded_step()));
  const Program& program = graph.program(0, 1);
  std::vector<OpKind> kinds;
  for (const Op& op : program.ops) kinds.push_back(op.kind);
  using enum OpKind;
  EXPECT_EQ(kinds,
            (std::vector{compute, compute, collective, compute, collective, compute, compute}));
  const Op& second = program.ops[3];  // does not wait for the exchange before it
  EXPECT_EQ(std::vector(second.after.begin(), second.after.end()), std::vector<std::uint32_t>{1});
  const Op& update = program.ops[5];
  EXPECT_EQ(std::set(update.after.begin(), update.after.end()), (std::set<std::uint32_t>{3, 4}));
}

TEST(StepReplay, PassesRepeatAndGradientsAreExchangedOnce) {
  StepGraph graph(recorded_job(recorded_step(), 8, 24));
  for (const std::uint32_t count : {0u, 1u, 2u, 3u, 7u}) {
    const Program& program = graph.program(0, count);
    auto seen = counts(program);
    EXPECT_EQ((seen[{OpKind::compute, Phase::forward}]), int(count));
    EXPECT_EQ((seen[{OpKind::compute, Phase::backward}]), 2 * int(count));
    EXPECT_EQ((seen[{OpKind::collective, Phase::gradient}]), 2);
    EXPECT_EQ((seen[{OpKind::compute, Phase::optimizer}]), 2);
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      for (const std::uint32_t before : program.ops[i].after) EXPECT_LT(before, i);
    }
  }
}

/// Ranks with different numbers of micro-batches meet in the exchange.
TEST(StepReplay, ExchangeHasOneIdentityWhateverTheMicroBatches) {
  StepGraph graph(recorded_job(recorded_step(), 8, 24));
  using Key = std::tuple<Phase, std::uint32_t, std::uint32_t>;
  std::set<std::vector<Key>> seen;
  for (const std::uint32_t count : {0u, 1u, 5u}) {
    std::vector<Key> keys;
    for (const Op& op : graph.program(0, count).ops) {
      if (op.kind == OpKind::collective) keys.emplace_back(op.phase, op.micro_batch, op.bucket);
    }
    seen.insert(keys);
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(StepReplay, GradientsOfASmallModelAreExchanged) {
  RecordedStep step = recorded_step();
  for (RecordedOp& op : *step.mutable_ops()) {
    if (!op.collective().empty()) op.set_bytes(20'000);
  }
  for (const double gradients : {16e6, 40e3, 0.0}) {  // 0: as measured
    step.set_gradient_bytes(gradients);
    StepGraph graph(recorded_job(step, 8, 24));
    auto seen = counts(graph.program(0, 3));
    EXPECT_EQ((seen[{OpKind::collective, Phase::gradient}]), gradients > 1e6 ? 0 : 2) << gradients;
  }
}

/// Collectives that are small beside the gradients carry norms or flags.
TEST(StepReplay, SmallCollectivesOfTheLastPassHaveOneIdentityToo) {
  RecordedStep step = recorded_step();
  step.set_micro_batches(2);
  const RecordedOp forward = step.ops(0), backward = step.ops(1);
  for (RecordedOp& op : *step.mutable_ops()) {
    if (op.phase() != "update") op.set_micro_batch(1);
    if (!op.collective().empty()) op.set_bytes(1024);
    for (auto& after : *op.mutable_after()) after += 2;
  }
  *step.add_ops() = forward;
  *step.add_ops() = backward;
  for (int moved = 0; moved < 2; ++moved) {  // the first pass goes to the begin
    for (int i = step.ops_size() - 1; i > 0; --i) step.mutable_ops()->SwapElements(i, i - 1);
  }
  StepGraph graph(recorded_job(step, 8, 24));
  using Key = std::tuple<Phase, std::uint32_t, std::uint32_t>;
  std::set<std::vector<Key>> seen;
  for (const std::uint32_t count : {0u, 1u, 2u, 5u}) {
    std::vector<Key> keys;
    for (const Op& op : graph.program(0, count).ops) {
      if (op.kind == OpKind::collective) keys.emplace_back(op.phase, op.micro_batch, op.bucket);
    }
    EXPECT_EQ(keys.size(), 2u);
    seen.insert(keys);
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(StepReplay, ScatteredGradientsAreExchangedInEveryPass) {
  StepGraph graph(recorded_job(recorded_step(true), 8, 24));
  auto seen = counts(graph.program(0, 3));
  EXPECT_EQ((seen[{OpKind::collective, Phase::forward}]), 3);
  EXPECT_EQ((seen[{OpKind::collective, Phase::gradient}]), 6);
  std::set<Communicator> groups;
  for (const Op& op : graph.program(0, 3).ops) {
    if (op.kind == OpKind::collective) groups.insert(op.communicator);
  }
  EXPECT_EQ(groups, std::set{Communicator::shard});
}

TEST(StepReplay, OtherDataParallelSizesKeepBytesAndDivideTheState) {
  StepGraph recorded(recorded_job(recorded_step(true))),
      larger(recorded_job(recorded_step(true), 32));
  const auto bytes = [](StepGraph& graph) {
    double sum = 0;
    for (const Op& op : graph.program(0, 1).ops) sum += op.bytes.value;
    return sum;
  };
  EXPECT_EQ(bytes(recorded), 3 * kGradients);
  EXPECT_EQ(bytes(larger), 3 * kGradients);
  const auto update = [](StepGraph& graph) {
    for (const Op& op : graph.program(0, 1).ops) {
      if (op.phase == Phase::optimizer) return graph.blocks()[op.block].kernels.front().bytes.value;
    }
    return 0.0;
  };
  EXPECT_EQ(update(recorded), 64e6);
  EXPECT_EQ(update(larger), 16e6);
  const MemoryUse before = recorded.memory(0, 1), after = larger.memory(0, 1);
  EXPECT_EQ(before.allocated().value, 100e6);
  EXPECT_EQ(before.optimizer.value, 4 * after.optimizer.value);
  EXPECT_EQ(before.activations.value, after.activations.value);
}

TEST(StepReplay, ModelOperationsAreThreeForwardPasses) {
  const StepGraph graph(recorded_job(recorded_step(), 8, 16));
  EXPECT_DOUBLE_EQ(graph.model_flop().value, 3 * 2 * (2 * 4096.0 * 4096 * 4096) * 16);
  EXPECT_DOUBLE_EQ(graph.tokens(), 16 * 2048.0);
}

/// Two tensor-parallel ranks: their collective is part of the computation.
TEST(StepReplay, TensorParallelCollectivesAreExposedInBlocks) {
  RecordedStep step = recorded_step();
  for (RecordedOp& op : *step.mutable_ops()) {
    if (!op.collective().empty()) op.set_size(4), op.set_stride(2);
  }
  RecordedOp& op = *step.mutable_ops(2);
  op.set_size(2);
  op.set_stride(1);
  Job job;
  *job.mutable_program()->mutable_step() = step;
  job.mutable_layout()->set_tensor(2);
  complete_program(job);
  EXPECT_EQ(job.layout().data(), 4u);
  StepGraph graph(job);
  const Program& program = graph.program(0, 1);
  ASSERT_EQ(program.ops[2].kind, OpKind::compute);
  const Block& block = graph.blocks()[program.ops[2].block];
  ASSERT_EQ(block.collectives.size(), 1u);
  EXPECT_EQ(block.collectives.front().bytes.value, kGradients);
  EXPECT_TRUE(block.kernels.empty());
}

}  // namespace
}  // namespace orrery
