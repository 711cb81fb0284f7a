#include "policies/scheduling/signal_model.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// Weights may lie anywhere within about this: log time per unit of a signal.
constexpr double kWeightSpread = 2;
/// Old changes lose this share of their say with each new one.
constexpr double kForgetting = 0.999;
/// Changes smaller than this (squared length) carry no information.
constexpr double kNoChange = 1e-10;
/// Signals change for reasons of their own (a rank waits, a batch is moved), so hints are doubted
/// by half their size until they have come true a few times, and always by a tenth.
constexpr double kFirstMistrust = 0.25;
constexpr double kLeastMistrust = 0.01;
constexpr double kMistrustMemory = 0.6;
/// A hint is judged only when it stood out by this many deviations.
constexpr double kJudged = 3;

}  // namespace

SignalModel::SignalModel() : mistrust_(kFirstMistrust) {
  weights_.setZero();
  covariance_.setIdentity();
  covariance_ *= kWeightSpread * kWeightSpread;
}

SignalModel::Hint SignalModel::hint(const SignalVector& change) const {
  const double mean = weights_.dot(change);
  const double unsure = change.dot(covariance_ * change);
  return {mean, unsure + mistrust_ * mean * mean};
}

void SignalModel::learn(const SignalVector& change, double error, double variance) {
  if (change.squaredNorm() < kNoChange) return;
  const double mean = weights_.dot(change);
  if (std::abs(mean) > kJudged * std::sqrt(variance)) {
    const double miss = std::min(1.0, std::pow((error - mean) / mean, 2));
    mistrust_ = kMistrustMemory * mistrust_ + (1 - kMistrustMemory) * miss;
    mistrust_ = std::max(mistrust_, kLeastMistrust);
  }
  const SignalVector spread = covariance_ * change;
  const SignalVector gain = spread / (variance + change.dot(spread));
  weights_ += gain * (error - mean);
  covariance_ -= gain * spread.transpose();
  // Forget, but never beyond what was believed in the beginning.
  const double most = kWeightSpread * kWeightSpread * kSignals;
  if (covariance_.trace() < kForgetting * most) covariance_ /= kForgetting;
}

}  // namespace orrery
