#include "traces/step_blocks.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"

namespace orrery {
namespace {

double flop(const Block& block) {
  double sum = 0;
  for (const Kernel& kernel : block.kernels) sum += kernel.flop.value * kernel.repeat;
  return sum;
}

double bytes(const Block& block) {
  double sum = 0;
  for (const Kernel& kernel : block.kernels) sum += kernel.bytes.value * kernel.repeat;
  return sum;
}

/// Number of collectives of each kind.
std::map<BlockCollective::Kind, double> calls(const Block& block) {
  std::map<BlockCollective::Kind, double> count;
  for (const BlockCollective& each : block.collectives) count[each.kind] += each.repeat;
  return count;
}

const StageShape kMiddle{.layers = 2};
const StageShape kFirst{.layers = 2, .first = true};
const StageShape kLast{.layers = 2, .last = true};
using Kind = BlockCollective::Kind;

TEST(StepBlocks, BackwardIsTwiceForward) {
  const RankShape rank(small_job(2, 4, 1, 4));
  for (const StageShape& stage : {kMiddle, kFirst, kLast}) {
    const double forward = flop(forward_block(rank, stage));
    const double backward = flop(backward_block(rank, stage, 1, stage.last, stage.first));
    EXPECT_NEAR(backward / forward, 2, 1e-12);
  }
}

TEST(StepBlocks, PartsOfTheBackwardPassAddUp) {
  const RankShape rank(small_job(2, 1, 1, 4));
  const StageShape whole{.layers = 8, .first = true, .last = true};
  const Block all = backward_block(rank, whole, 1, true, true);
  const Block first = backward_block(rank, whole, 0.25, true, false);
  const Block middle = backward_block(rank, whole, 0.5, false, false);
  const Block last = backward_block(rank, whole, 0.25, false, true);
  EXPECT_NEAR((flop(first) + flop(middle) + flop(last)) / flop(all), 1, 1e-12);
  EXPECT_NEAR((bytes(first) + bytes(middle) + bytes(last)) / bytes(all), 1, 1e-12);
}

TEST(StepBlocks, ShapesOfOneLayer) {
  const RankShape rank(small_job(2, 4, 1, 4));
  std::map<std::string, const Kernel*> named;
  const Block block = forward_block(rank, kMiddle);
  for (const Kernel& kernel : block.kernels) named[kernel.name] = &kernel;
  EXPECT_EQ(named.at("qkv")->n, (1024 + 2 * 256) / 2);
  EXPECT_EQ(named.at("qkv")->m, 512);
  EXPECT_EQ(named.at("mlp_up")->n, 2 * 4096 / 2);  // with the gate
  EXPECT_EQ(named.at("mlp_down")->k, 4096 / 2);
  EXPECT_EQ(named.at("attention")->batch, 8);
  // Causal: half of 4 s^2 d per head.
  EXPECT_EQ(named.at("attention")->flop.value, 2.0 * 512 * 512 * 64 * 8);
  // q and o of 8 heads, k and v of 2, of 64 numbers of 2 bytes, for 512 tokens.
  EXPECT_EQ(named.at("attention")->bytes.value, 512.0 * (2 * 8 + 2 * 2) * 64 * 2);
}

TEST(StepBlocks, SequenceParallelismGathersAndScatters) {
  const RankShape rank(small_job(2, 4, 1, 4));
  EXPECT_EQ(calls(forward_block(rank, kMiddle)),
            (std::map<Kind, double>{{Kind::all_gather, 4}, {Kind::reduce_scatter, 4}}));
  EXPECT_EQ(calls(forward_block(rank, kFirst))[Kind::reduce_scatter], 5);
  EXPECT_EQ(calls(forward_block(rank, kLast))[Kind::all_gather], 5);
}

TEST(StepBlocks, WithoutItThereAreTwoAllReducesALayer) {
  Job job = small_job(2, 4, 1, 4);
  job.mutable_layout()->set_sequence_parallel(false);
  const RankShape rank(job);
  for (const Block& block :
       {forward_block(rank, kMiddle), backward_block(rank, kMiddle, 1, false, false)}) {
    EXPECT_EQ(calls(block), (std::map<Kind, double>{{Kind::all_reduce, 4}}));
    EXPECT_EQ(block.collectives.front().bytes.value, 512.0 * 1024 * 2);
  }
  EXPECT_EQ(calls(forward_block(rank, kFirst))[Kind::all_reduce], 5);
  EXPECT_EQ(calls(forward_block(rank, kLast))[Kind::all_reduce], 4);
  EXPECT_TRUE(forward_block(RankShape(small_job(1, 1, 1, 1)), kFirst).collectives.empty());
}

TEST(StepBlocks, AdamMovesEveryByteOfItsState) {
  // bf16: gradient 2, both moments in and out 16, master weights in and out 8, weights 2.
  EXPECT_EQ(bytes(optimizer_block(1000, 2)), 28'000);
  EXPECT_EQ(bytes(optimizer_block(1000, 4)), 28'000);
}

TEST(StepBlocks, ParametersOfAStage) {
  const RankShape rank(small_job(2, 4, 1, 4));
  const double layer = (1024.0 * 1536 + 1024 * 1024 + 3 * 1024 * 4096) / 2 + 2 * 1024;
  EXPECT_EQ(rank.parameters(kMiddle), 2 * layer);
  EXPECT_EQ(rank.parameters(kFirst), 2 * layer + 16000 * 1024);
  EXPECT_EQ(rank.parameters(kLast), 2 * layer + 16000 * 1024 + 1024);
}

}  // namespace
}  // namespace orrery
