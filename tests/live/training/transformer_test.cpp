#include "live/training/transformer.hpp"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "live/training/model.hpp"
#include "tests/live/check_gradient.hpp"

namespace orrery::live {
namespace {

Batch batch_of(const std::vector<std::uint8_t>& bytes, std::size_t sequences = 1) {
  return {.bytes = bytes, .sequences = sequences};
}

TEST(Transformer, GradientAgreesWithDifferencesOfTheLoss) {
  Transformer<double> model(Rng(3));
  expect_gradient_of_differences(model, sample_bytes(2 * 11), 2);
}

TEST(Transformer, GradientOfABatchIsTheSumOfItsSequences) {
  const auto bytes = sample_bytes(40);
  const std::vector<std::uint8_t> first(bytes.begin(), bytes.begin() + 20);
  const std::vector<std::uint8_t> second(bytes.begin() + 20, bytes.end());
  Transformer<double> both(Rng(5)), apart(Rng(5));
  const double together = both.accumulate_gradient(batch_of(bytes, 2));
  EXPECT_NEAR(
      apart.accumulate_gradient(batch_of(first)) + apart.accumulate_gradient(batch_of(second)),
      together, 1e-9);
  for (std::size_t i = 0; i < both.gradient().size(); ++i) {
    ASSERT_NEAR(both.gradient()[i], apart.gradient()[i], 1e-9);
  }
}

TEST(Transformer, LooksAtNoByteThatIsStillToCome) {
  // The probabilities after "abcdz" sum to 1 only if the earlier predictions do not depend on 'z',
  // which is an input now and was none before.
  Transformer<double> model(Rng(2));
  std::vector<std::uint8_t> bytes{'a', 'b', 'c', 'd', 'z'};
  const double before = model.loss(batch_of(bytes));
  bytes.push_back(0);
  double sum = 0;
  for (int next = 0; next < 256; ++next) {
    bytes.back() = static_cast<std::uint8_t>(next);
    sum += std::exp(before - model.loss(batch_of(bytes)));
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(Transformer, TellsPositionsApart) {
  // The same bytes in another order before the same last one: attention without positions would
  // predict the same after it.
  Transformer<double> model(Rng(2));
  const auto last = [&](const std::string& text) {
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    return model.loss(batch_of(bytes)) - model.loss(batch_of({bytes.begin(), bytes.end() - 1}));
  };
  EXPECT_GT(std::abs(last("abcdz!") - last("badcz!")), 1e-6);
}

TEST(Transformer, FetchesEachRowOfItsEmbeddingOnceAMicroBatch) {
  Transformer<float> model(Rng(5));
  const auto bytes = sample_bytes(2 * 46);
  const std::set<std::uint8_t> distinct(bytes.begin(), bytes.end());
  model.accumulate_gradient(batch_of(bytes, 2));
  const double row = 2.0 * BuiltinTransformer::hidden * sizeof(float);
  EXPECT_EQ(model.gather_count().used, 2 * 45 * row);
  EXPECT_EQ(model.gather_count().read, static_cast<double>(distinct.size()) * row);
}

TEST(Transformer, LossStartsNearThatOfAUniformGuess) {
  const auto bytes = sample_bytes(65);
  EXPECT_NEAR(Transformer<float>(Rng(6)).loss(batch_of(bytes)) / 64, std::log(256.0), 0.5);
}

TEST(Transformer, AdamLearnsARepeatedSentence) {
  Transformer<float> model(Rng(7));
  Adam adam(model.parameters().size(), 0.003);
  const auto bytes = sample_bytes(91);
  const double before = model.loss(batch_of(bytes));
  for (int step = 0; step < 40; ++step) {
    model.zero_gradient();
    model.accumulate_gradient(batch_of(bytes));
    adam.update(model.parameters(), model.gradient(), 1.0F / 90);
  }
  EXPECT_LT(model.loss(batch_of(bytes)), before / 10);
}

TEST(Transformer, EqualGeneratorsTrainEqualBits) {
  Transformer<float> one(Rng(8)), same(Rng(8)), other(Rng(9));
  const auto bytes = sample_bytes(60);
  EXPECT_EQ(one.accumulate_gradient(batch_of(bytes)), same.accumulate_gradient(batch_of(bytes)));
  EXPECT_EQ(parameters_sha256(one), parameters_sha256(same));
  EXPECT_NE(parameters_sha256(one), parameters_sha256(other));
  EXPECT_TRUE(std::equal(one.gradient().begin(), one.gradient().end(), same.gradient().begin()));
}

}  // namespace
}  // namespace orrery::live
