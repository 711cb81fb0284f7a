#include "traces/workload/framework.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "traces/workload/model.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery {
namespace {

TEST(Framework, ByNameAndYear) {
  EXPECT_EQ(framework_habits("Megatron-Bridge/Megatron-Core")->stack, "megatron-bridge");
  EXPECT_EQ(framework_habits("NeMo/Megatron-Core")->stack, "nemo");
  EXPECT_EQ(framework_habits("NeMo Megatron")->stack, "nemo-megatron");
  EXPECT_EQ(framework_habits("Megatron-Core r0.8.0")->stack, "megatron-core");
  EXPECT_EQ(framework_habits("Megatron-LM 2021")->stack, "megatron-lm-2021");
  EXPECT_EQ(framework_habits("Megatron-DeepSpeed")->stack, "megatron-deepspeed");
  EXPECT_EQ(framework_habits("Composer+FSDP")->shard, Sharding::parameters);
  EXPECT_EQ(framework_habits("XTuner 0.1.2x + DeepSpeed")->stack, "pytorch-fsdp");
  EXPECT_EQ(framework_habits("XTuner 0.1.2x + DeepSpeed")->recompute, Recompute::full);
  const char* branch = "Megatron-LM v1.1.5 + DeepSpeed ZeRO-3 (old branch)";
  EXPECT_EQ(framework_habits(branch)->stack, "megatron-deepspeed");
  EXPECT_EQ(framework_habits(branch)->shard, Sharding::parameters);
  EXPECT_EQ(framework_habits("something else"), nullptr);
}

TEST(Framework, EveryStackIsInTheCatalogue) {
  for (const char* name : {"Megatron-Bridge", "Megatron-DeepSpeed", "NeMo Megatron", "NeMo",
                           "Megatron-Core", "Megatron-LM 2021", "Megatron-LM 2022", "Megatron-LM",
                           "MegaScale", "Composer", "torchtitan", "PyTorch FSDP compile",
                           "MaxText/JAX", "Paxml/JAX", "InternEvo", "Meta internal", "HAI-LLM",
                           "metaseq"}) {
    const FrameworkHabits* habits = framework_habits(name);
    ASSERT_NE(habits, nullptr) << name;
    EXPECT_NO_THROW(software_stack(std::string(habits->stack))) << name;
  }
}

/// Job of a framework's habits: experts on `expert` ranks, or a dense model for 0.
Job with_habits(const char* framework, std::uint32_t expert) {
  Job job;
  job.mutable_model()->set_preset(expert > 0 ? "deepseek-v3" : "llama3-8b");
  resolve(*job.mutable_model(), {}, "job.model");
  job.mutable_layout()->set_data(8);
  job.mutable_layout()->set_expert(std::max(1u, expert));
  job.mutable_layout()->set_shard("parameters");
  apply_habits(*framework_habits(framework), job);
  return job;
}

TEST(Framework, MaxTextOverlapsUnlessRanksExchangeTokens) {
  for (const std::uint32_t none : {0u, 1u}) {
    EXPECT_TRUE(with_habits("MaxText", none).overlap()) << none;
    EXPECT_TRUE(with_habits("MaxText", none).overlaps().parameters()) << none;
  }
  EXPECT_FALSE(with_habits("MaxText", 8).overlap());
  EXPECT_FALSE(with_habits("MaxText", 8).overlaps().parameters());
  EXPECT_TRUE(with_habits("Megatron-Core", 8).overlap());
}

TEST(Framework, InternEvoGathersParametersInTheOpen) {
  const Job job = with_habits("InternEvo", 0);
  EXPECT_TRUE(job.overlap()) << "overlap_sync_grad";
  EXPECT_FALSE(job.overlaps().parameters()) << "overlap_sync_param";
  EXPECT_FALSE(framework_habits("InternEvo")->splits_tokens) << "tensor mode mtp";
}

TEST(Framework, ZeroThreeOfTheOldBranchOverlapsNothing) {
  const Job job = with_habits("Megatron-LM v1.1.5 + DeepSpeed ZeRO-3", 0);
  EXPECT_FALSE(job.overlap());
  EXPECT_FALSE(job.overlaps().parameters());
}

TEST(Framework, WordsOfTheOverlap) {
  const auto words = [](const char* framework, std::optional<bool> exchanges) {
    return overlap_words(*framework_habits(framework), exchanges);
  };
  EXPECT_EQ(words("NeMo", true), "overlapped");
  EXPECT_EQ(words("Megatron-DeepSpeed", false), "not overlapped");
  EXPECT_EQ(words("MaxText", false), "overlapped");
  EXPECT_EQ(words("MaxText", true), "not overlapped");
  EXPECT_EQ(words("MaxText", std::nullopt), "not overlapped if expert > 1");
  EXPECT_EQ(words("InternEvo", false), "overlapped but the gathering of parameters");
}

}  // namespace
}  // namespace orrery
