#include "policies/scheduling/signal_model.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

constexpr double kVariance = 1e-4;

TEST(SignalModel, KnowsNothingInTheBeginning) {
  const SignalModel model;
  const auto hint = model.hint({0.1, -0.2, 0.3});
  EXPECT_EQ(hint.mean, 0);
  EXPECT_GT(hint.variance, 0.1);
}

TEST(SignalModel, FindsTheWeightsThatMadeTheData) {
  SignalModel model;
  Rng rng(7);
  const SignalVector truth{0.8, -1.2, 0.3};
  for (int i = 0; i < 400; ++i) {
    const SignalVector change{0.1 * rng.normal(), 0.1 * rng.normal(), 0.1 * rng.normal()};
    model.learn(change, truth.dot(change) + 0.01 * rng.normal(), kVariance);
    model.settle();
  }
  EXPECT_LT((model.weights() - truth).norm(), 0.1);
  const auto hint = model.hint({0, -0.5, 0});
  EXPECT_NEAR(hint.mean, 0.6, 0.05);
  EXPECT_LT(std::sqrt(hint.variance), 0.2) << "hints that came true are trusted";
}

TEST(SignalModel, NoiseThatExplainsNothingGetsNoSay) {
  SignalModel model;
  Rng rng(8);
  for (int i = 0; i < 1000; ++i) {
    model.learn({0.01 * rng.normal(), 0.01 * rng.normal(), 0.01 * rng.normal()},
                0.01 * rng.normal(), kVariance);
    model.settle();
  }
  const auto hint = model.hint({0.01, 0.01, 0.01});
  EXPECT_LT(std::abs(hint.mean), 0.005);
  EXPECT_LT(std::sqrt(hint.variance), 0.005);
}

TEST(SignalModel, BrokenPromisesAreMistrusted) {
  SignalModel model;
  const SignalVector change{0, -0.4, 0};
  for (int i = 0; i < 20; ++i) model.learn(change, 0.5, kVariance), model.settle();
  const auto trusted = model.hint(change);
  model.learn(change, 0, kVariance);
  model.settle();
  const auto doubted = model.hint(change);
  EXPECT_LT(trusted.variance / (trusted.mean * trusted.mean), 0.02);
  EXPECT_GT(doubted.variance / (doubted.mean * doubted.mean), 0.1);
}

TEST(SignalModel, UnchangedSignalsTeachNothing) {
  SignalModel model;
  model.learn(SignalVector::Zero(), 1, kVariance);
  model.settle();
  EXPECT_EQ(model.weights(), SignalVector::Zero());
}

}  // namespace
}  // namespace orrery
