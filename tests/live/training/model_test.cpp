#include "live/training/model.hpp"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tests/live/check_gradient.hpp"

namespace orrery::live {
namespace {

Batch batch_of(const std::vector<std::uint8_t>& bytes, std::size_t sequences = 1) {
  return {.bytes = bytes, .sequences = sequences};
}

TEST(Model, HasTheParametersThatTheSimulatorPrices) {
  const LanguageModel<float> model(Rng(1));
  EXPECT_EQ(model.parameters().size(), builtin_parameter_count());
  EXPECT_EQ(builtin_cost("language-model", 64).parameters, builtin_parameter_count());
}

TEST(Model, GradientAgreesWithDifferencesOfTheLoss) {
  LanguageModel<double> model(Rng(3));
  expect_gradient_of_differences(model, sample_bytes(2 * (BuiltinModel::context + 6)), 2);
}

TEST(Model, GradientOfABatchIsTheSumOfItsSequences) {
  const auto bytes = sample_bytes(60);
  const std::vector<std::uint8_t> first(bytes.begin(), bytes.begin() + 30);
  const std::vector<std::uint8_t> second(bytes.begin() + 30, bytes.end());
  LanguageModel<double> both(Rng(5)), apart(Rng(5));
  const double together = both.accumulate_gradient(batch_of(bytes, 2));
  EXPECT_NEAR(
      apart.accumulate_gradient(batch_of(first)) + apart.accumulate_gradient(batch_of(second)),
      together, 1e-9);
  for (std::size_t i = 0; i < both.gradient().size(); ++i) {
    ASSERT_NEAR(both.gradient()[i], apart.gradient()[i], 1e-9);
  }
}

TEST(Model, FetchesEachRowOfItsEmbeddingOnceAMicroBatch) {
  LanguageModel<float> model(Rng(5));
  const std::vector<std::uint8_t> bytes = sample_bytes(BuiltinModel::context + 45);
  const std::set<std::uint8_t> distinct(bytes.begin(), bytes.end());
  model.accumulate_gradient(batch_of(bytes));
  const double row = 2.0 * BuiltinModel::embedding * sizeof(float);
  EXPECT_EQ(model.gather_count().used, 45 * BuiltinModel::context * row);
  EXPECT_EQ(model.gather_count().read, static_cast<double>(distinct.size()) * row);
}

TEST(Model, LossStartsNearThatOfAUniformGuess) {
  const auto bytes = sample_bytes(BuiltinModel::context + 64);
  EXPECT_NEAR(LanguageModel<float>(Rng(6)).loss(batch_of(bytes)) / 64, std::log(256.0), 0.5);
}

TEST(Model, AdamLearnsARepeatedSentence) {
  LanguageModel<float> model(Rng(7));
  Adam adam(model.parameters().size(), 0.003);
  const auto bytes = sample_bytes(BuiltinModel::context + 90);
  const double before = model.loss(batch_of(bytes));
  for (int step = 0; step < 40; ++step) {
    model.zero_gradient();
    model.accumulate_gradient(batch_of(bytes));
    adam.update(model.parameters(), model.gradient(), 1.0F / 90);
  }
  EXPECT_LT(model.loss(batch_of(bytes)), before / 10);
}

TEST(Model, HashOfParametersNoticesOneBit) {
  LanguageModel<float> model(Rng(8)), same(Rng(8)), other(Rng(9));
  EXPECT_EQ(parameters_sha256(model), parameters_sha256(same));
  EXPECT_NE(parameters_sha256(model), parameters_sha256(other));
  same.parameters()[1000] = std::nextafter(same.parameters()[1000], 2.0F);
  EXPECT_NE(parameters_sha256(model), parameters_sha256(same));
}

}  // namespace
}  // namespace orrery::live
