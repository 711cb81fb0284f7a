#include "live/model.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "live/text.hpp"

namespace orrery::live {
namespace {

std::vector<std::uint8_t> sample_bytes(std::size_t length) {
  const std::string words = "the quick brown fox jumps over the lazy dog; ";
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < length; ++i) bytes.push_back(words[i % words.size()]);
  return bytes;
}

TEST(Model, HasTheParametersThatTheSimulatorPrices) {
  std::size_t size = 0;
  for (const Tensor& tensor : model_tensors()) size += tensor.size();
  EXPECT_EQ(size, builtin_parameter_count());
  EXPECT_EQ(LanguageModel<float>(Rng(1)).parameters().size(), builtin_parameter_count());
}

TEST(Model, TensorsStandInTheOrderOfTheirNames) {
  std::string before;
  for (const Tensor& tensor : model_tensors()) {
    EXPECT_LT(before, tensor.name);
    before = tensor.name;
  }
}

TEST(Model, GradientAgreesWithDifferencesOfTheLoss) {
  LanguageModel<double> model(Rng(3));
  const auto bytes = sample_bytes(BuiltinModel::context + 12);
  model.zero_gradient();
  const double loss = model.accumulate(bytes);
  EXPECT_DOUBLE_EQ(loss, model.loss(bytes));
  Rng rng(4);
  std::size_t compared = 0;
  for (const Tensor& tensor : model_tensors()) {
    for (int probe = 0; probe < 60; ++probe) {
      const std::size_t at = tensor.offset + rng.below(tensor.size());
      const double kept = model.parameters()[at];
      constexpr double kStep = 1e-5;
      model.parameters()[at] = kept + kStep;
      const double above = model.loss(bytes);
      model.parameters()[at] = kept - kStep;
      const double below = model.loss(bytes);
      model.parameters()[at] = kept;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(model.gradient()[at], expected, 1e-6 + 1e-5 * std::abs(expected))
          << tensor.name << " at " << at;
      compared += std::abs(expected) > 1e-6 ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 100u);  // most probes hit a parameter that matters
}

TEST(Model, GradientOfTwoSequencesIsTheSumOfTheirs) {
  const auto bytes = sample_bytes(60);
  LanguageModel<double> both(Rng(5)), one(Rng(5));
  both.accumulate(std::span(bytes).first(40));
  both.accumulate(std::span(bytes).last(30));
  one.accumulate(std::span(bytes).first(40));
  const std::vector<double> first(one.gradient().begin(), one.gradient().end());
  one.zero_gradient();
  one.accumulate(std::span(bytes).last(30));
  for (std::size_t i = 0; i < first.size(); ++i) {
    ASSERT_NEAR(both.gradient()[i], first[i] + one.gradient()[i], 1e-9);
  }
}

TEST(Model, LossStartsNearThatOfAUniformGuess) {
  const auto bytes = sample_bytes(BuiltinModel::context + 64);
  EXPECT_NEAR(LanguageModel<float>(Rng(6)).loss(bytes) / 64, std::log(256.0), 0.5);
}

TEST(Model, AdamLearnsARepeatedSentence) {
  LanguageModel<float> model(Rng(7));
  Adam adam(model.parameters().size(), 0.003);
  const auto bytes = sample_bytes(BuiltinModel::context + 90);
  const double before = model.loss(bytes);
  for (int step = 0; step < 40; ++step) {
    model.zero_gradient();
    model.accumulate(bytes);
    adam.update(model.parameters(), model.gradient(), 1.0F / 90);
  }
  EXPECT_LT(model.loss(bytes), before / 10);
}

TEST(Model, HashOfParametersNoticesOneBit) {
  LanguageModel<float> model(Rng(8)), same(Rng(8)), other(Rng(9));
  EXPECT_EQ(parameters_sha256(model.parameters()), parameters_sha256(same.parameters()));
  EXPECT_NE(parameters_sha256(model.parameters()), parameters_sha256(other.parameters()));
  same.parameters()[1000] = std::nextafter(same.parameters()[1000], 2.0F);
  EXPECT_NE(parameters_sha256(model.parameters()), parameters_sha256(same.parameters()));
}

}  // namespace
}  // namespace orrery::live
