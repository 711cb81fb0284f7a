#include "traces/published/published_options.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/traces/published_row.hpp"
#include "traces/published/published_run.hpp"

namespace orrery {
namespace {

TEST(PublishedOptions, Recomputation) {
  EXPECT_EQ(recompute_option("none (from_memory)", 8).what, "none");
  EXPECT_EQ(recompute_option("selective+SP", 8).what, "selective");
  EXPECT_EQ(recompute_option("Full", 8).what, "full");
  const RecomputeOption second = recompute_option("selective 2", 8);
  EXPECT_EQ(second.what, "full");
  EXPECT_DOUBLE_EQ(second.share, 0.5) << "every second layer";
  EXPECT_DOUBLE_EQ(recompute_option("full block 2", 8).share, 0.25) << "two of eight layers";
  EXPECT_DOUBLE_EQ(recompute_option("full block 20", 8).share, 1);
  EXPECT_GT(recompute_option("mla_up_proj, mlp", 8).share,
            recompute_option("mla_up_proj", 8).share);
  EXPECT_EQ(recompute_option("core_attn", 8).what, "selective");
  EXPECT_FALSE(recompute_option("custom (recipe)", 8).assumed.empty());
  EXPECT_EQ(recompute_option("minimal_with_context", 8).what, "selective");
  for (const char* unsaid : {"", "see recipe", "recipe", "unknown"}) {
    EXPECT_EQ(recompute_option(unsaid, 8).what, "") << unsaid;
  }
}

TEST(PublishedOptions, RecomputationOfSomeOfTheLayers) {
  const auto share = [](const char* text) { return recompute_option(text, 8).share; };
  EXPECT_DOUBLE_EQ(share("full, 9 of 61 layers by id"), 9.0 / 61);
  EXPECT_DOUBLE_EQ(share("full, one layer per virtual stage (32 of 61)"), 32.0 / 61);
  EXPECT_DOUBLE_EQ(share("full block, 5 of 48 layers"), 5.0 / 48) << "not of the stage's 8";
  EXPECT_DOUBLE_EQ(share("full of each stage"), 1);
  EXPECT_DOUBLE_EQ(share("full, 9 of the layers"), 1);
  EXPECT_EQ(recompute_option("full, 9 of 61 layers by id", 8).what, "full");
}

TEST(PublishedOptions, OffloadedActivationsAreThoseOfRecomputedLayers) {
  for (const char* text :
       {"custom: decoder input offloaded to host", "activation offload (Offload)",
        "full, checkpoints offloaded to host"}) {
    const RecomputeOption option = recompute_option(text, 8);
    EXPECT_EQ(option.what, "full") << text;
    EXPECT_DOUBLE_EQ(option.share, 1) << text;
    EXPECT_EQ(option.assumed, "") << text;
    EXPECT_TRUE(option.offloads) << text;
  }
  EXPECT_EQ(recompute_option("minimal_offloaded", 8).what, "selective") << "products are kept";
  EXPECT_TRUE(recompute_option("minimal_offloaded", 8).offloads);
  for (const char* text : {"full", "full, no offload", "custom (recipe)"}) {
    EXPECT_FALSE(recompute_option(text, 8).offloads) << text;
  }
}

TEST(PublishedOptions, OffloadInTheRecomputationReachesTheJob) {
  TableRow row = llama_row();
  row.recompute = "custom: decoder input offloaded to host";
  PublishedRun run = published_run(row);
  EXPECT_EQ(run.refusal, "");
  EXPECT_EQ(run.job.recompute(), "full");
  EXPECT_EQ(run.job.offload(), "activations");
  EXPECT_FALSE(run.recompute_open);
  row.offload = "optimizer";
  run = published_run(row);
  EXPECT_EQ(run.job.offload(), "optimizer") << "the column of its own counts";
}

TEST(PublishedOptions, OffloadThatTheFrameworksScriptHas) {
  TableRow row = llama_row();
  row.framework = "Megatron-LM v1.1.5 + DeepSpeed ZeRO-3 (old branch)";
  PublishedRun run = published_run(row);
  EXPECT_EQ(run.refusal, "");
  EXPECT_EQ(run.job.offload(), "activations");
  EXPECT_NE(std::find(run.assumed.begin(), run.assumed.end(), "offload activations"),
            run.assumed.end());
  row.offload = "none";
  run = published_run(row);
  EXPECT_NE(run.job.offload(), "activations");
  EXPECT_EQ(std::find(run.assumed.begin(), run.assumed.end(), "offload activations"),
            run.assumed.end());
}

TEST(PublishedOptions, AttentionKernels) {
  EXPECT_FALSE(attention_option("").has_value());
  EXPECT_EQ(attention_option("unfused (no flash)"), "unfused");
  EXPECT_EQ(attention_option("flash-2"), "flash-2");
  EXPECT_EQ(attention_option("SDPA"), "flash-2");
  EXPECT_EQ(attention_option("CUDNN_ATTENTION"), "cudnn");
  EXPECT_EQ(attention_option("fa3"), "flash-3");
  EXPECT_EQ(attention_option("flash (v1/triton, alibi or learned)"), "flash-1");
  EXPECT_EQ(attention_option("TE"), "flash");
  for (const char* third : {"flash_attention_3", "flash-attention-3", "Flash Attention 3",
                            "flash-attn-3", "flash3"}) {
    EXPECT_EQ(attention_option(third), "flash-3") << third;
  }
  EXPECT_EQ(attention_option("flash_attention_2"), "flash-2");
  EXPECT_EQ(attention_option("flash attention 2, full (no varlen)"), "flash-2");
  EXPECT_EQ(attention_option("FLASH_ATTENTION"), "flash-2") << "a backend of PyTorch";
  EXPECT_EQ(attention_option("EFFICIENT_ATTENTION"), "flash-1");
  EXPECT_EQ(attention_option("flash attention"), "flash");
}

TEST(PublishedOptions, OverlapOfTheRun) {
  EXPECT_TRUE(overlap_option("").understood);
  EXPECT_FALSE(overlap_option("as usual").understood);
  const OverlapOption flags = overlap_option(
      "OVERLAP_GRAD_REDUCE=False; OVERLAP_PARAM_GATHER=True; TP_COMM_OVERLAP=False; "
      "MC_TP_OVERLAP_AG=True; MCORE_CUDA_GRAPH=1");
  EXPECT_EQ(flags.gradients, false);
  EXPECT_EQ(flags.parameters, true);
  EXPECT_EQ(flags.graphs, true);
  ASSERT_TRUE(flags.tensor.has_value());
  EXPECT_GT(*flags.tensor, 0) << "gathering alone";
  EXPECT_GT(overlap_option("TP_COMM_OVERLAP=1").tensor.value_or(0), *flags.tensor);
  EXPECT_EQ(overlap_option("TP_COMM_OVERLAP=0; MC_TP_OVERLAP_AG=False").tensor, 0);
  EXPECT_EQ(overlap_option("none").gradients, false);
  EXPECT_EQ(overlap_option("none (TP, grad, P2P overlap off)").pipeline, false);
}

TEST(PublishedOptions, CapacityOfExperts) {
  const auto padded = capacity_option("dense_matmul, capacity factor 1.25 (drops and pads)");
  ASSERT_TRUE(padded.has_value());
  EXPECT_DOUBLE_EQ(padded->factor, 1.25);
  EXPECT_TRUE(padded->pads);
  EXPECT_TRUE(padded->masks);
  EXPECT_FALSE(capacity_option("capacity factor 2, experts padded")->masks);
  EXPECT_TRUE(capacity_option("dense_matmul, capacity factor 1.0")->pads);
  const auto dropped = capacity_option("expert_capacity_factor=2");
  ASSERT_TRUE(dropped.has_value());
  EXPECT_DOUBLE_EQ(dropped->factor, 2);
  EXPECT_FALSE(dropped->pads);
  for (const char* none : {"", "dropless, DeepEP", "capacity factor", "capacity_factor: -1.0",
                           "capacity factor of the recipe", "capacity factor 1e9"}) {
    EXPECT_FALSE(capacity_option(none).has_value()) << none;
  }
}

TEST(PublishedOptions, AdaptersAndOptimizers) {
  EXPECT_EQ(adapter_rank("llama2-70b LoRA r16"), 16u);
  EXPECT_EQ(adapter_rank("llama2-70b LoRA r64"), 64u);
  EXPECT_EQ(adapter_rank("llama2-70b"), 0u);
  EXPECT_EQ(optimizer_bytes("AdamW"), 12);
  EXPECT_EQ(optimizer_bytes("sgd"), 4);
  EXPECT_FALSE(optimizer_bytes("magic").has_value());
}

/// Each option reaches the job, and an unknown one is refused rather than passed over.
TEST(PublishedOptions, ReachTheJob) {
  TableRow row = llama_row();
  row.optimizer = "sgd";
  row.accumulation_bytes = 4;
  row.offload = "optimizer";
  row.compile = "1";
  row.unread = {"colour"};
  PublishedRun run = published_run(row);
  EXPECT_EQ(run.refusal, "");
  EXPECT_EQ(run.job.optimizer_bytes(), 4);
  EXPECT_EQ(run.job.accumulation_bytes(), 4u);
  EXPECT_EQ(run.job.offload(), "optimizer");
  EXPECT_TRUE(run.job.compiled());
  ASSERT_EQ(run.assumed.size(), 1u);
  EXPECT_EQ(run.assumed.front(), "column 'colour' not read");
  row.optimizer = "magic";
  EXPECT_EQ(published_run(row).refusal, "optimizer 'magic' is not known");
  row.optimizer.clear();
  row.offload = "moon";
  EXPECT_EQ(published_run(row).refusal, "offload 'moon' is not known");
}

TEST(PublishedOptions, RecomputationThatIsNotSaidIsNeverFull) {
  for (const std::uint32_t micro_batch : {1u, 2u, 4u}) {
    TableRow row = llama_row();
    row.recompute.clear();
    row.mbs = micro_batch;
    const PublishedRun run = published_run(row);
    ASSERT_EQ(run.refusal, "");
    EXPECT_NE(run.job.recompute(), "full") << micro_batch;
  }
}

}  // namespace
}  // namespace orrery
