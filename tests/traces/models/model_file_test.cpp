#include "traces/models/model_file.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "traces/models/decoder_families.hpp"
#include "traces/models/hugging_face.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

const fs::path kFolder = ORRERY_SOURCE_DIR "/tests/traces/models";

/// Parameters by model, as the library transformers counts them.
std::map<std::string, double> published_counts() {
  std::ifstream in(kFolder / "counts.csv");
  std::map<std::string, double> counts;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    const std::size_t comma = line.find(',');
    counts[line.substr(0, comma)] = std::stod(line.substr(comma + 1));
  }
  return counts;
}

ModelFile config(const std::string& model) {
  return read_model_file((kFolder / "configs" / (model + ".json")).string());
}

std::string error_of(const std::string& text) {
  try {
    parse_model_file(text, "m");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// A small config.json of Llama with other keys in it.
std::string llama(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
"num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 1000)" +
         more + "}";
}

TEST(ModelFile, ParametersEqualThoseOfTransformers) {
  const std::map<std::string, double> counts = published_counts();
  EXPECT_GE(counts.size(), 60u);
  for (const auto& [model, parameters] : counts) {
    EXPECT_EQ(count_parameters(config(model).decoder).total(), parameters) << model;
  }
}

TEST(ModelFile, EveryFamilyOfTheTableHasACountOrADefaultOfLlama) {
  std::map<std::string, int> seen;
  for (const auto& [model, parameters] : published_counts()) ++seen[config(model).decoder.family];
  EXPECT_GE(seen.size(), 40u);
  for (const std::string& family : model_families()) {
    EXPECT_EQ(refused_model_type(family), "") << family;
  }
}

TEST(ModelFile, TheStepPricesNearlyAllParameters) {
  for (const auto& [model, parameters] : published_counts()) {
    if (model.starts_with("gpt2") || model.starts_with("opt-350m")) continue;  // position tables
    EXPECT_NEAR(parameter_count(config(model).decoder.model) / parameters, 1, 0.01) << model;
  }
}

TEST(ModelFile, DifferencesToThePricedModelAreStated) {
  EXPECT_THAT(config("gpt-oss-20b").decoder.assumed, Contains(HasSubstr("sinks")));
  EXPECT_THAT(config("gpt-neox-20b").decoder.assumed, Contains(HasSubstr("in parallel")));
  EXPECT_THAT(config("deepseek-v3-671b").decoder.assumed, Contains(HasSubstr("multi-token")));
  EXPECT_THAT(config("gemma-3-27b").decoder.assumed, Contains(HasSubstr("without pictures")));
  EXPECT_TRUE(config("llama-3.1-70b").decoder.assumed.empty());
}

TEST(ModelFile, ShapesArriveInTheModel) {
  const Model deepseek = config("deepseek-v3-671b").decoder.model;
  EXPECT_EQ(deepseek.latent_attention().query_rank(), 1536u);
  EXPECT_EQ(deepseek.experts().count(), 256u);
  EXPECT_EQ(deepseek.experts().dense_layers(), 3u);
  const Model qwen = config("qwen3-30b-a3b").decoder.model;
  EXPECT_EQ(qwen.head_size(), 128u);
  EXPECT_EQ(qwen.experts().feed_forward(), 768u);
  EXPECT_TRUE(config("gemma-7b").decoder.model.tied_embeddings());
  EXPECT_EQ(config("falcon-7b").decoder.model.kv_heads(), 1u);
}

TEST(ModelFile, LayersThatAlternateHaveAPeriod) {
  const auto window = [](const char* name) {
    const Model model = config(name).decoder.model;
    return std::pair(model.window().size(), model.window().every());
  };
  EXPECT_EQ(window("gemma-2-27b"), std::pair(4096u, 2u));
  EXPECT_EQ(window("gemma-3-27b").second, 6u);
  EXPECT_EQ(window("gpt-oss-120b"), std::pair(128u, 2u));
  EXPECT_EQ(window("llama-4-maverick-400b-a17b"), std::pair(8192u, 4u));
  EXPECT_FALSE(config("llama-3.1-70b").decoder.model.has_window());
  const Experts maverick = config("llama-4-maverick-400b-a17b").decoder.model.experts();
  EXPECT_EQ(maverick.every(), 2u);
  EXPECT_EQ(maverick.dense_layers(), 0u);
  EXPECT_EQ(config("deepseek-v3-671b").decoder.model.experts().every(), 0u) << "not set";
  const ModelFile odd = parse_model_file(R"({"model_type": "gpt_oss", "hidden_size": 64,
"num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
"intermediate_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 1000,
"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention", "full_attention",
"full_attention", "full_attention"]})",
                                         "config.json");
  EXPECT_THAT(odd.decoder.assumed,
              Contains(HasSubstr("windows of 16 tokens in 1 of 5 layers priced as full")));
}

TEST(ModelFile, MissingSizesOfGemma3AreThoseOfItsClass) {
  const ModelFile file = parse_model_file(R"({"model_type": "gemma3", "text_config": {
"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
"num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152}})",
                                          "config.json");
  EXPECT_EQ(count_parameters(file.decoder).total(), published_counts().at("gemma-3-4b"));
}

TEST(ModelFile, ProblemsHaveTheirPlace) {
  EXPECT_THAT(error_of(R"({"model_type": "lama"})"),
              HasSubstr("m:1:2: error: expected a known family of models, found 'lama'; did you "
                        "mean 'llama'?"));
  EXPECT_THAT(error_of(R"({"model_type": "mamba2"})"), HasSubstr("its layers have no attention"));
  EXPECT_THAT(error_of(R"({"model_type": "t5"})"), HasSubstr("it has an encoder"));
  EXPECT_THAT(error_of(R"({"model_type": "llama"})"), HasSubstr("expected the key"));
  EXPECT_THAT(error_of(llama(R"(, "num_key_value_heads": 3)")), HasSubstr("divide the 4 heads"));
  EXPECT_THAT(error_of(llama(R"(, "head_dim": "wide")")),
              HasSubstr("m:2:71: error: expected a whole number up to 10000 for 'head_dim'"));
  EXPECT_THAT(error_of(llama(R"(, "layer_types": ["linear_attention"])")),
              HasSubstr("found 'linear_attention'"));
  EXPECT_THAT(error_of(llama(R"(, "hidden_size": 32)")), HasSubstr("found it twice"));
  EXPECT_THAT(error_of("{\"model_type\": \"llama\", "), HasSubstr("m:1:"));
  EXPECT_THAT(error_of("nothing"), HasSubstr("expected a model"));
}

TEST(ModelFile, ArgumentsOfMegatron) {
  const ModelFile file = parse_model_file(R"(#!/bin/bash
LAYERS=96  # GPT-3
SEQ=${SEQ:-2048}
ARGS=(
    --num-layers $LAYERS --hidden-size 12288 --num-attention-heads 96 \
    --seq-length ${SEQ:-2048} --max-position-embeddings 2048
    --vocab-size 50257 --make-vocab-size-divisible-by 51200
    --micro-batch-size 1 --global-batch-size=1536
)
torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size 1
)",
                                          "train.sh");
  const Model& model = file.decoder.model;
  EXPECT_EQ(model.layers(), 96u);
  EXPECT_EQ(model.feed_forward(), 4 * 12288u);
  EXPECT_EQ(model.vocabulary(), 51200u);
  EXPECT_TRUE(model.tied_embeddings());
  EXPECT_FALSE(model.gated());
  EXPECT_EQ(file.batch.sequence_length, 2048u);
  EXPECT_EQ(file.batch.global_batch, 1536u);
  // 174.6 billion: arXiv:2104.04473, table 1, states 174.6.
  EXPECT_NEAR(count_parameters(file.decoder).total() / 174.6e9, 1, 0.001);
}

TEST(ModelFile, ArgumentsOfMegatronForLlamaCountAsTheConfig) {
  const ModelFile file = parse_model_file(
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm "
      "--disable-bias-linear --position-embedding-type rope --padded-vocab-size 128256 "
      "--untie-embeddings-and-output-weights",
      "arguments");
  EXPECT_EQ(count_parameters(file.decoder).total(), published_counts().at("llama-3.1-8b"));
}

TEST(ModelFile, ArgumentsOfMegatronWithoutAVocabularyAreRefused) {
  EXPECT_THAT(error_of("--num-layers 2 --hidden-size 64 --num-attention-heads 4"),
              HasSubstr("--vocab-size"));
  EXPECT_THAT(error_of("--num-layers two --hidden-size 64"),
              HasSubstr("m:1:14: error: expected a whole number from 1 to 10000 for --num-layers, "
                        "found 'two'"));
}

TEST(ModelFile, ConfigurationOfTorchtitan) {
  const std::string text = R"([model]
name = "llama3"
flavor = "8B"   # published sizes

[training]
local_batch_size = 1
seq_len = 8192
)";
  const ModelFile file = parse_model_file(text, "llama3_8b.toml");
  EXPECT_EQ(file.decoder.model.layers(), 32u);
  EXPECT_EQ(file.batch.sequence_length, 8192u);
  EXPECT_EQ(count_parameters(file.decoder).total(), published_counts().at("llama-3.1-8b"));
  EXPECT_THAT(error_of("[model]\nname = \"llama3\"\nflavor = \"9B\"\n"),
              HasSubstr("m:3:1: error: expected a flavor of torchtitan"));
}

TEST(ModelFile, WindowsBoundTheOperationsOfAttention) {
  Model model = config("gpt-oss-20b").decoder.model;
  const double with = training_flop_per_token(model, 4096);
  const double short_one = training_flop_per_token(model, 128);
  model.clear_window();
  EXPECT_EQ(training_flop_per_token(model, 128), short_one);
  // 12 layers of 64 heads of 64: 128 tokens, of the first 128 all before them, instead of 4096.
  const double less = 12 * 64 * 128 * (4096 - 128 * (2 - 128 / 4096.0));
  EXPECT_NEAR(training_flop_per_token(model, 4096) - with, 3 * less, 1);
}

TEST(ModelFile, OperationsOfATokenAreThoseOfTheStep) {
  // 6 operations a weight, and 6 x layers x hidden x sequence for causal attention.
  const Model model = config("llama-2-7b").decoder.model;
  EXPECT_EQ(training_flop_per_token(model, 4096),
            6 * active_weights(model) + 6.0 * 32 * 4096 * 4096);
}

}  // namespace
}  // namespace orrery
