#include "policies/rebalancing/signal_model.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

constexpr double kVariance = 1e-4;

TEST(SignalModel, KnowsNothingInTheBeginning) {
  const SignalModel model;
  const auto hint = model.hint({0.6, -0.2, 0.3});
  EXPECT_EQ(hint.mean, 0);
  EXPECT_GT(hint.variance, 0.1);
  EXPECT_EQ(model.hint({0.1, -0.2, 0.3}).variance, 0) << "may be noise of the signals";
}

TEST(SignalModel, FindsTheWeightsThatMadeTheData) {
  SignalModel model;
  Rng rng(7);
  const SignalVector truth{0.8, -1.2, 0.3};
  for (int i = 0; i < 1500; ++i) {
    SignalVector change{0.01 * rng.normal(), 0.01 * rng.normal(), 0.01 * rng.normal()};
    if (i % 10 == 0) change(i / 10 % 3) += 0.5 * rng.normal();
    model.add_surprise(change, truth.dot(change) + 0.01 * rng.normal(), kVariance);
    model.update_weights();
  }
  EXPECT_LT((model.weights() - truth).norm(), 0.1);
  const auto hint = model.hint({0, -0.5, 0});
  EXPECT_NEAR(hint.mean, 0.6, 0.05);
  EXPECT_LT(std::sqrt(hint.variance), 0.2) << "hints that came true are trusted";
}

TEST(SignalModel, ChangesWithinTheNoiseOfASignalSayNothing) {
  SignalModel model;
  Rng rng(8);
  for (int i = 0; i < 500; ++i) {
    model.add_surprise({0.1 * rng.normal(), -0.3, 0}, 0.3 + 0.01 * rng.normal(), kVariance);
    model.update_weights();
  }
  EXPECT_EQ(model.hint({0.2, 0, 0}).mean, 0) << "this signal does that all the time";
  EXPECT_EQ(model.hint({0.2, 0, 0}).variance, 0);
}

TEST(SignalModel, LargeChangesThatExplainNothingGetNoSay) {
  SignalModel model;
  Rng rng(9);
  for (int i = 0; i < 300; ++i) {
    const bool moved = i % 10 == 0;
    model.add_surprise({0, 0, moved ? 0.5 : 0.001}, 0.01 * rng.normal(), kVariance);
    model.update_weights();
  }
  EXPECT_LT(std::abs(model.hint({0, 0, 0.5}).mean), 0.01);
}

TEST(SignalModel, BrokenPromisesAreMistrusted) {
  SignalModel model;
  const SignalVector change{0, -0.6, 0};
  for (int i = 0; i < 200; ++i) {
    model.add_surprise(i % 10 == 0 ? change : SignalVector::Zero(), i % 10 == 0 ? 0.5 : 0,
                       kVariance);
    model.update_weights();
  }
  const auto trusted = model.hint(change);
  model.add_surprise(change, 0, kVariance);
  model.update_weights();
  const auto doubted = model.hint(change);
  EXPECT_LT(trusted.variance / (trusted.mean * trusted.mean), 0.02);
  EXPECT_GT(doubted.variance / (doubted.mean * doubted.mean), 0.1);
}

TEST(SignalModel, UnchangedSignalsTeachNothing) {
  SignalModel model;
  model.add_surprise(SignalVector::Zero(), 1, kVariance);
  model.update_weights();
  EXPECT_EQ(model.weights(), SignalVector::Zero());
}

}  // namespace
}  // namespace orrery
