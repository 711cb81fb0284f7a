#include "traces/workload/layout_choices.hpp"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

TEST(LayoutChoices, EachUsesAllGpusAndIsThereOnce) {
  const Job job = small_job(1, 1, 1, 64);
  std::set<std::string> seen;
  int possible = 0, pipelined = 0, interleaved = 0;
  for (const LayoutChoice& choice : layout_choices(job, {.gpus = 16, .domain = 8})) {
    EXPECT_EQ(choice.tensor * choice.context * choice.pipeline * choice.data, 16u);
    EXPECT_LE(choice.tensor, 8u);
    EXPECT_TRUE(seen.insert(words_of(choice) + choice.objection).second) << words_of(choice);
    if (!choice.objection.empty()) continue;
    ++possible;
    pipelined += choice.pipeline > 1;
    interleaved += choice.chunks > 1;
    EXPECT_EQ(StepGraph(laid_out(job, choice)).ranks(), 16u) << words_of(choice);
  }
  EXPECT_GT(possible, 50);
  EXPECT_GT(pipelined, 10);
  EXPECT_GT(interleaved, 5);
}

TEST(LayoutChoices, OneThatCannotBeSaysWhy) {
  Job job = small_job(1, 1, 1, 24);  // 24 sequences do not go to 16 replicas
  int objections = 0;
  for (const LayoutChoice& choice : layout_choices(job, {.gpus = 16, .domain = 8})) {
    if (choice.data == 16) {
      EXPECT_NE(choice.objection.find("multiple of"), std::string::npos);
    }
    objections += !choice.objection.empty();
  }
  EXPECT_GE(objections, 1);
}

TEST(LayoutChoices, ShardingIsWhatTheStackHas) {
  Job job = small_job(1, 1, 1, 64);
  const auto shards = [&](const char* stack) {
    job.set_stack(stack);
    std::set<std::string_view> out;
    for (const LayoutChoice& choice : layout_choices(job, {.gpus = 8, .domain = 8})) {
      if (choice.data > 1) out.insert(name_of(choice.shard));
    }
    return out;
  };
  EXPECT_EQ(shards("nemo"), (std::set<std::string_view>{"nothing", "optimizer"}));
  EXPECT_EQ(shards("pytorch-fsdp"), (std::set<std::string_view>{"gradients", "parameters"}));
  EXPECT_EQ(shards("generic").size(), 4u);
}

TEST(LayoutChoices, ExpertsAreSpreadWhereThereAreSome) {
  Job job = small_job(1, 1, 1, 64);
  EXPECT_EQ(layout_choices(job, {.gpus = 8, .domain = 8}).back().expert, 1u);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(8);
  experts.set_top_k(2);
  std::set<std::uint32_t> spread;
  for (const LayoutChoice& choice : layout_choices(job, {.gpus = 8, .domain = 8})) {
    spread.insert(choice.expert);
  }
  EXPECT_EQ(spread, (std::set<std::uint32_t>{1, 2, 4, 8}));
}

TEST(LayoutChoices, WordsNameWhatIsMoreThanOne) {
  const LayoutChoice choice{.tensor = 4,
                            .pipeline = 2,
                            .data = 16,
                            .chunks = 5,
                            .micro_batch = 2,
                            .shard = Sharding::optimizer,
                            .recompute = Recompute::full,
                            .objection = {}};
  EXPECT_EQ(words_of(choice),
            "tensor 4 x pipeline 2 x data 16, micro-batch 2, chunks 5, ZeRO-1, recompute full");
  EXPECT_EQ(words_of({}), "one GPU, micro-batch 1");
}

}  // namespace
}  // namespace orrery
