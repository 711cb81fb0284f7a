#include "traces/workload/framework.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace orrery
