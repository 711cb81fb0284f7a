#include "traces/workload/model.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

Model preset(const std::string& name) {
  Model model;
  model.set_preset(name);
  resolve(model, SourceMap{}, "job.model");
  return model;
}

TEST(Model, ParameterCountsArePublished) {
  // Published counts of the weight files; Llama has no biases, so they match to the last one.
  EXPECT_EQ(parameter_count(preset("llama3-8b")), 8'030'261'248.0);
  EXPECT_EQ(parameter_count(preset("llama3-70b")), 70'553'706'496.0);
  EXPECT_EQ(parameter_count(preset("llama2-7b")), 6'738'415'616.0);
  EXPECT_NEAR(parameter_count(preset("llama3-405b")) / 405.85e9, 1, 1e-4);
  EXPECT_NEAR(parameter_count(preset("gpt3-175b")) / 175e9, 1, 0.005);
  EXPECT_NEAR(parameter_count(preset("mt-nlg-530b")) / 530e9, 1, 0.005);
}

TEST(Model, ParameterCountsOfTheWholeCatalogueArePublished) {
  // Totals as their authors state them, in billions.
  const std::map<std::string, double> published = {
      {"llama2-13b", 13.016},    {"bloom-176b", 176.247},   {"mpt-125m", 0.1253},
      {"mpt-350m", 0.356},       {"mpt-760m", 0.7605},      {"mpt-1b", 1.316},
      {"mpt-3b", 2.6518},        {"mpt-7b", 6.6589},        {"mpt-13b", 12.854},
      {"mpt-30b", 29.9752},      {"mpt-70b", 64.862},       {"internlm-7b", 7.32},
      {"nemotron4-15b", 15.6},   {"nemotron4-340b", 341},   {"grok1-314b", 314},
      {"mixtral-8x7b", 46.7},    {"deepseek-v3", 671},      {"qwen3-30b-a3b", 30.5},
      {"qwen3-235b-a22b", 235},  {"gpt-oss-120b", 116.83},  {"gpt-oss-20b", 20.91},
      {"deepseek-v2-236b", 235.74}, {"deepseek-v2-lite-16b", 15.706},
      {"moonlight-16b-a3b", 15.96}, {"kimi-k2-1t", 1026.4}, {"glm-4.5-air-106b", 106.85},
      {"hunyuan3-295b-a21b", 294.9}, {"llama4-scout-109b", 107.77},
      {"llama4-maverick-400b", 400.71}, {"gemma-3-27b", 27.01}};
  for (const auto& [name, billions] : published) {
    EXPECT_NEAR(parameter_count(preset(name)) / (billions * 1e9), 1, 0.014) << name;
  }
}

TEST(Model, ATokenIsMultipliedWithTheActiveWeightsOnly) {
  // Stated active parameters count the embedding table too, which no token is multiplied with.
  const auto active = [](const std::string& name) {
    const Model model = preset(name);
    return active_weights(model) + double{1} * model.vocabulary() * model.hidden();
  };
  EXPECT_NEAR(active("deepseek-v3") / 37e9, 1, 0.02);
  EXPECT_NEAR(active("qwen3-235b-a22b") / 22e9, 1, 0.02);
  EXPECT_NEAR(active("qwen3-30b-a3b") / 3.3e9, 1, 0.02);
  EXPECT_NEAR(active("mixtral-8x7b") / 12.9e9, 1, 0.02);
  EXPECT_NEAR(active("kimi-k2-1t") / 32.6e9, 1, 0.02);
  EXPECT_NEAR(active("hunyuan3-295b-a21b") / 21e9, 1, 0.02);
  EXPECT_NEAR(active("llama4-maverick-400b") / 17e9, 1, 0.02);
}

TEST(Model, EveryPresetResolves) {
  EXPECT_GE(model_names().size(), 37u);
  for (const std::string& name : model_names()) EXPECT_GT(parameter_count(preset(name)), 1e8);
}

TEST(Model, ResolvingTwiceChangesNothing) {
  Model model = preset("gpt3-175b");
  EXPECT_FALSE(model.gated());
  const std::string once = model.SerializeAsString();
  resolve(model, SourceMap{}, "job.model");
  EXPECT_EQ(model.SerializeAsString(), once);
}

TEST(Model, ByHandItIsGatedWithAsManyKeyValueHeadsAsHeads) {
  Model model;
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_feed_forward(256);
  model.set_vocabulary(100);
  resolve(model, SourceMap{}, "job.model");
  EXPECT_EQ(model.kv_heads(), 4u);
  EXPECT_EQ(parameter_count(model), 2 * (4 * 64 * 64 + 3 * 64 * 256 + 2 * 64) + 2 * 6400 + 64);
  model.set_heads(5);
  EXPECT_THROW(resolve(model, SourceMap{}, "job.model"), Error);
  model.set_heads(4);
  model.set_kv_heads(3);
  EXPECT_THROW(resolve(model, SourceMap{}, "job.model"), Error);
}

TEST(Model, AWrongNameSuggestsTheNearest) {
  try {
    preset("llama3-80b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("did you mean 'llama3-8b'"), std::string::npos)
        << error.message();
  }
}

TEST(Model, TheBuiltInModelHasNoShapeOfItsOwn) {
  Model model;
  model.set_builtin("language-model");
  resolve(model, SourceMap{}, "job.model");
  EXPECT_EQ(parameter_count(model), builtin_parameter_count());
  model.set_layers(3);
  EXPECT_THROW(resolve(model, SourceMap{}, "job.model"), Error);
}

TEST(Model, TheBuiltInTransformerCostsWhatAModelOfItsShapeCosts) {
  using M = BuiltinTransformer;
  Model shape;
  shape.set_layers(M::layers);
  shape.set_hidden(M::hidden);
  shape.set_heads(M::heads);
  shape.set_feed_forward(M::feed_forward);
  shape.set_vocabulary(M::vocabulary);
  resolve(shape, SourceMap{}, "job.model");
  Model builtin;
  builtin.set_builtin("transformer");
  EXPECT_EQ(parameter_count(builtin), parameter_count(shape));
  const BuiltinCost cost = builtin_cost("transformer", 100);
  const double table = double{M::vocabulary} * M::hidden;
  const double norms = (2.0 * M::layers + 1) * M::hidden;
  EXPECT_DOUBLE_EQ(cost.forward_flop, 2 * (cost.parameters - table - norms) +
                                          2.0 * M::layers * M::hidden * 100);
}

}  // namespace
}  // namespace orrery
