#include "traces/published/published_model.hpp"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/traces/published_row.hpp"
#include "traces/published/published_run.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

/// A row of a model with experts: names and sizes as tables write them.
TableRow sparse_row(const char* model, std::uint32_t layers, std::uint32_t hidden,
                    std::uint32_t heads, const char* kv_heads, std::uint32_t ffn,
                    std::uint32_t vocabulary, std::uint32_t experts, std::uint32_t top_k) {
  TableRow row = llama_row();
  row.model = model;
  row.n_params_b.reset();
  row.layers = layers;
  row.hidden = hidden;
  row.heads = heads;
  row.kv_heads = kv_heads;
  row.ffn = ffn;
  row.vocab = vocabulary;
  row.moe_experts = experts;
  row.moe_topk = top_k;
  row.ep = 4;
  row.vpp = 1;
  return row;
}

TableRow deepseek_row(const char* kv_heads, std::uint32_t ffn) {
  return sparse_row("deepseek-v3-671b", 61, 7168, 128, kv_heads, ffn, 129280, 256, 8);
}

bool states(const PublishedRun& run, const std::string& text) {
  for (const std::string& each : run.assumed) {
    if (each.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(PublishedModel, AsManyKeyValueHeadsAsHeadsAreLatentInModelsWithLatents) {
  const Model named = published_run(deepseek_row("MLA", 18432)).job.model();
  for (const std::uint32_t ffn : {18432u, 2048u}) {
    const Model counted = published_run(deepseek_row("128", ffn)).job.model();
    EXPECT_EQ(counted.SerializeAsString(), named.SerializeAsString()) << ffn;
  }
  EXPECT_NEAR(parameter_count(named) / 671e9, 1, 0.001);
  EXPECT_FALSE(published_run(deepseek_row("8", 2048)).job.model().has_latent_attention())
      << "grouped heads are no latents";
  TableRow plain = deepseek_row("128", 2048);
  plain.latent = "none";
  EXPECT_FALSE(published_run(plain).job.model().has_latent_attention());
  plain.model = "mine";
  plain.latent.clear();
  EXPECT_FALSE(published_run(plain).job.model().has_latent_attention());
}

TEST(PublishedModel, KnownModelsHaveTheirPublishedParameters) {
  const std::pair<TableRow, double> published[] = {
      {sparse_row("deepseek-v2-lite", 27, 2048, 16, "16", 1408, 102400, 64, 6), 15.7},
      {sparse_row("moonlight-16b-a3b", 27, 2048, 16, "16", 1408, 163840, 64, 6), 15.96},
      {sparse_row("kimi-k2-1t", 61, 7168, 64, "64", 2048, 163840, 384, 8), 1026.4},
      {sparse_row("intellect-3", 46, 4096, 96, "8", 1408, 151552, 128, 8), 106.9},
      {sparse_row("hunyuan3-295b-a21b", 80, 4096, 64, "8", 1536, 120832, 192, 8), 294.9},
      {sparse_row("llama4-maverick-400b", 48, 5120, 40, "8", 8192, 202048, 128, 1), 400.7},
      {sparse_row("qwen3-30b-a3b", 48, 2048, 32, "4", 768, 151936, 128, 8), 30.53},
      {sparse_row("qwen3-30b-a3b", 48, 2048, 32, "4", 6144, 151936, 128, 8), 30.53},
      {sparse_row("minimax-m2.5", 62, 3072, 48, "8", 1536, 200064, 256, 8), 228.7}};
  for (const auto& [row, billions] : published) {
    const PublishedRun run = published_run(row);
    EXPECT_EQ(run.refusal, "") << row.model;
    EXPECT_NEAR(parameter_count(run.job.model()) / (1e9 * billions), 1, 0.002) << row.model;
  }
}

TEST(PublishedModel, AnExpertOfAnotherSizeIsTheRowsOwn) {
  const Model model =
      published_run(sparse_row("qwen3-30b-mine", 48, 2048, 32, "4", 1024, 1000, 128, 8))
          .job.model();
  EXPECT_DOUBLE_EQ(expert_feed_forward(model), 1024);
}

TEST(PublishedModel, LayersThatNoScenarioExpressesAreRefused) {
  for (const char* name : {"nemotron3-super-120b", "qwen3-next-80b-a3b", "DeepSeek-V3.2"}) {
    TableRow row = llama_row();
    row.model = name;
    const std::string refused = published_run(row).refusal;
    EXPECT_TRUE(refused.starts_with(std::string("model is '") + name + "', which has "))
        << refused;
  }
}

TEST(PublishedModel, WindowsOfKnownModelsAndOfColumns) {
  const auto window = [](const TableRow& row) {
    const Model model = published_run(row).job.model();
    return std::pair(model.window().size(), model.window().every());
  };
  TableRow row = sparse_row("gpt-oss-120b", 36, 2880, 64, "8", 2880, 201088, 128, 4);
  EXPECT_EQ(window(row), std::pair(128u, 2u));
  row.window_every = 3;
  EXPECT_EQ(window(row), std::pair(128u, 3u));
  row.window_layers = 0;
  EXPECT_FALSE(published_run(row).job.model().has_window());
  EXPECT_EQ(window(sparse_row("llama4-scout", 48, 5120, 40, "8", 8192, 202048, 16, 1)),
            std::pair(8192u, 4u));
  TableRow own = llama_row();
  EXPECT_FALSE(published_run(own).job.model().has_window());
  own.window = 2048;
  EXPECT_EQ(window(own), std::pair(2048u, 0u)) << "all layers";
  own.window_layers = 60;
  EXPECT_EQ(window(own), std::pair(2048u, 4u)) << "of 80 layers";
  own.window_layers = 47;
  EXPECT_TRUE(states(published_run(own), "windows in 40 of 80 layers, not in 47"));
  EXPECT_FALSE(states(published_run(own), "priced as full attention"));
  own.attention = "unfused";
  EXPECT_TRUE(states(published_run(own), "windows of 2048 tokens priced as full attention"));
}

TEST(PublishedModel, ExpertsInEverySecondLayer) {
  TableRow row = sparse_row("llama4-maverick-400b", 48, 5120, 40, "8", 8192, 202048, 128, 1);
  EXPECT_EQ(published_run(row).job.model().experts().every(), 2u);
  EXPECT_EQ(published_run(row).job.model().experts().dense_layers(), 0u);
  row.expert_every = 3;
  EXPECT_EQ(published_run(row).job.model().experts().every(), 3u);
}

TEST(PublishedModel, ColumnsOfTheModelTakePrecedence) {
  TableRow row = sparse_row("deepseek-v3-cut", 61, 7168, 128, "128", 2048, 129280, 256, 8);
  row.latent = "0/256/64/32/64";
  row.dense_layers = 2;
  row.dense_ffn = 8192;
  row.shared_experts = 4;
  row.capacity = 1.25;
  row.balance = "1.5";
  const PublishedRun run = published_run(row);
  EXPECT_EQ(run.refusal, "");
  const Model& model = run.job.model();
  EXPECT_EQ(model.latent_attention().query_rank(), 0u);
  EXPECT_EQ(model.latent_attention().key_value_rank(), 256u);
  EXPECT_EQ(model.latent_attention().value(), 64u);
  EXPECT_EQ(model.experts().dense_layers(), 2u);
  EXPECT_EQ(model.feed_forward(), 8192u);
  EXPECT_EQ(model.experts().feed_forward(), 2048u);
  EXPECT_EQ(model.experts().shared(), 4u);
  EXPECT_DOUBLE_EQ(model.experts().capacity(), 1.25);
  EXPECT_DOUBLE_EQ(model.experts().skew(), 1.5);
  EXPECT_FALSE(states(run, "routing"));
  EXPECT_FALSE(model.experts().padded());
  row.padded = 1;
  row.dispatch = "Einsum";
  EXPECT_TRUE(published_run(row).job.model().experts().padded());
  EXPECT_EQ(published_run(row).job.model().experts().dispatch(), "einsum");
  row.dispatch = "sort";
  EXPECT_EQ(published_run(row).refusal, "dispatch is 'sort', expected permute or einsum");
  TableRow wide = llama_row();
  wide.head_size = 256;
  EXPECT_EQ(published_run(wide).job.model().head_size(), 256u);
}

TEST(PublishedModel, NaturalRoutingIsEvenIfTheRouterEvensLoads) {
  for (const auto& [name, is_even] : {std::pair{"deepseek-v3-671b", true},
                                      {"deepseek-v2-236b", false}}) {
    TableRow row = deepseek_row("MLA", 2048);
    row.model = name;
    row.balance = "natural";
    const PublishedRun run = published_run(row);
    ASSERT_EQ(run.refusal, "") << name;
    EXPECT_EQ(run.job.model().experts().routing() == "natural", !is_even) << name;
    EXPECT_EQ(states(run, "natural routing evened by the router's bias"), is_even) << name;
    row.balance = "1.5";
    EXPECT_DOUBLE_EQ(published_run(row).job.model().experts().skew(), 1.5) << name;
  }
}

TEST(PublishedModel, RoutingIsForcedNaturalOrALoad) {
  const auto with = [](const char* balance, const char* framework = "nemo") {
    TableRow row = sparse_row("qwen3-30b-a3b", 48, 2048, 32, "4", 768, 151936, 128, 8);
    row.balance = balance;
    row.framework = framework;
    return published_run(row);
  };
  EXPECT_TRUE(states(with(""), "routing balanced, nothing dropped"));
  EXPECT_FALSE(states(with("forced"), "routing"));
  EXPECT_FALSE(states(with("natural"), "natural routing priced as balanced"));
  EXPECT_TRUE(states(with("natural", "mine"), "natural routing priced as balanced"))
      << "the generic stack has no load of natural routing";
  EXPECT_EQ(with("natural").job.model().experts().routing(), "natural");
  for (const char* odd : {"0.5", "even", "1e9", "2x", "nan"}) {
    EXPECT_TRUE(with(odd).refusal.starts_with(std::string("balance is '") + odd + "', expected "))
        << with(odd).refusal;
  }
}

TEST(PublishedModel, OddSizesOfAModelAreRefusedInWords) {
  const auto latent = [](const char* text) {
    TableRow row = deepseek_row("128", 2048);
    row.latent = text;
    return published_run(row).refusal;
  };
  EXPECT_EQ(latent("1536/512/128/64/128"), "");
  for (const char* odd : {"1536", "1536/512/128/64", "1/2/3/4/5/6", "1536/0/128/64/128", "a/b",
                          "1536/512/128/64/99999"}) {
    EXPECT_TRUE(latent(odd).starts_with(std::string("latent is '") + odd + "', expected "))
        << latent(odd);
  }
  TableRow row = deepseek_row("MLA", 2048);
  row.latent = "none";
  EXPECT_TRUE(published_run(row).refusal.starts_with("kv_heads is MLA and latent is none: "));
  row.latent.clear();
  row.head_size = 128;
  EXPECT_TRUE(published_run(row).refusal.starts_with("head_size is 128, expected none beside "));
  row.head_size.reset();
  row.dense_layers = 62;
  EXPECT_EQ(published_run(row).refusal, "dense_layers is 62, expected at most the 61 layers");
}

}  // namespace
}  // namespace orrery
