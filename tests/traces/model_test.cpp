#include "traces/model.hpp"

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

TEST(Model, EveryPresetResolves) {
  EXPECT_GE(model_names().size(), 8u);
  for (const std::string& name : model_names()) EXPECT_GT(parameter_count(preset(name)), 1e9);
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

}  // namespace
}  // namespace orrery
