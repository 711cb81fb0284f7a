// The blocks of stages and chunks: parts add up to the whole.
#include <numeric>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

struct Work {
  double flop = 0, bytes = 0, collectives = 0, layers = 0;
  Nanos declared = 0;
};

Work work_of(StepGraph& graph, std::uint32_t stage, Phase phase, std::uint32_t micro_batch,
             std::uint32_t count) {
  Work sum;
  for (const Op& op : graph.program(stage, count).ops) {
    if (op.kind != OpKind::compute || op.phase != phase || op.micro_batch != micro_batch) continue;
    const Block& block = graph.blocks()[op.block];
    sum.declared += block.declared;
    sum.layers += block.layers;
    for (const Kernel& kernel : block.kernels) {
      sum.flop += kernel.flop.value * kernel.repeat;
      sum.bytes += kernel.bytes.value * kernel.repeat;
    }
    for (const BlockCollective& collective : block.collectives) {
      sum.collectives += collective.bytes.value * collective.repeat;
    }
  }
  return sum;
}

void expect_equal(const Work& a, const Work& b) {
  EXPECT_NEAR(a.flop, b.flop, 1e-9 * b.flop);
  EXPECT_NEAR(a.bytes, b.bytes, 1e-9 * b.bytes);
  EXPECT_NEAR(a.collectives, b.collectives, 1e-9 * b.collectives + 1e-9);
  EXPECT_NEAR(a.layers, b.layers, 1e-9);
  EXPECT_EQ(a.declared, b.declared);
}

TEST(StepPieces, PartsOfAPassAreTheWhole) {
  StepGraph whole(small_job(2, 2, 1, 4));
  for (const char* shard : {"nothing", "optimizer", "gradients", "parameters"}) {
    Job job = small_job(2, 2, 2, 8);
    job.mutable_layout()->set_shard(shard);
    StepGraph graph(job);
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      for (std::uint32_t stage = 0; stage < 2; ++stage) {
        for (const std::uint32_t micro_batch : {0u, 3u}) {
          expect_equal(work_of(graph, stage, phase, micro_batch, 4),
                       work_of(whole, stage, phase, micro_batch, 4));
        }
      }
    }
  }
}

TEST(StepPieces, HalvesOfTheBackwardPassAreTheWhole) {
  StepGraph whole(small_job(1, 4, 2, 8));
  Job job = small_job(1, 4, 2, 8);
  job.mutable_layout()->set_schedule("zero-bubble");
  StepGraph halves(job);
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    expect_equal(work_of(halves, stage, Phase::backward, 3, 4),
                 work_of(whole, stage, Phase::backward, 3, 4));
  }
}

TEST(StepPieces, DeclaredTimeIsKeptToTheNanosecond) {
  for (const char* shard : {"nothing", "parameters"}) {
    Job job = paced_job(4, 40);
    job.set_bucket(100e3);
    job.mutable_pace()->set_micro_batch(40'000'001);
    job.mutable_layout()->set_shard(shard);
    StepGraph graph(job);
    for (const std::uint32_t micro_batch : {0u, 9u}) {
      EXPECT_EQ(work_of(graph, 0, Phase::forward, micro_batch, 10).declared +
                    work_of(graph, 0, Phase::backward, micro_batch, 10).declared,
                40'000'001);
    }
  }
}

TEST(StepPieces, ChunksHoldTheWholeModel) {
  Job job = small_job(1, 2, 1, 4);
  job.mutable_layout()->set_chunks(3);  // 8 layers: 2, 2, 1, 1, 1, 1
  StepGraph graph(job);
  EXPECT_EQ(work_of(graph, 0, Phase::forward, 0, 4).layers, 4);
  EXPECT_EQ(work_of(graph, 1, Phase::forward, 0, 4).layers, 4);
}

}  // namespace
}  // namespace orrery
