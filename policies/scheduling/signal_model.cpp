#include "policies/scheduling/signal_model.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// Weights may lie anywhere within about this: log time per unit of a signal.
constexpr double kWeightSpread = 2;
/// What older changes say counts this much less with every instant that brings new ones.
constexpr double kForgetting = 0.995;
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
  if (change.squaredNorm() >= kNoChange) lessons_.push_back({change, error, variance});
}

/// Compares what the hints said with what came.
void SignalModel::judge() {
  double missed = 0, judged = 0;
  for (const Lesson& lesson : lessons_) {
    const double said = weights_.dot(lesson.change);
    if (std::abs(said) <= kJudged * std::sqrt(lesson.variance)) continue;
    missed += std::min(1.0, std::pow((lesson.error - said) / said, 2));
    judged += 1;
  }
  if (judged == 0) return;
  mistrust_ = kMistrustMemory * mistrust_ + (1 - kMistrustMemory) * missed / judged;
  mistrust_ = std::max(mistrust_, kLeastMistrust);
}

void SignalModel::settle() {
  if (lessons_.empty()) return;
  judge();
  for (const Lesson& lesson : lessons_) {
    const SignalVector spread = covariance_ * lesson.change;
    const SignalVector gain = spread / (lesson.variance + lesson.change.dot(spread));
    weights_ += gain * (lesson.error - weights_.dot(lesson.change));
    covariance_ -= gain * spread.transpose();
  }
  lessons_.clear();
  // Forget, but never beyond what was believed in the beginning.
  const double most = kWeightSpread * kWeightSpread * kSignals;
  if (covariance_.trace() < kForgetting * most) covariance_ /= kForgetting;
}

}  // namespace orrery
