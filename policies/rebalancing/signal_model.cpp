#include "policies/rebalancing/signal_model.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// Weights may lie anywhere within about this: log time per unit of a signal.
constexpr double kWeightSpread = 2;
/// Weight of older changes after each instant with new ones.
constexpr double kForgetting = 0.995;
/// Signals change for reasons of their own (a rank waits, a batch is moved), so hints are doubted
/// by half their size until they have come true a few times, and always by a tenth. The first
/// guess counts for hints of about this square.
constexpr double kFirstMistrust = 0.25, kLeastMistrust = 0.01;
constexpr double kFirstPromise = 0.5;
/// Weight of older hints in the mistrust after each instant with new ones.
constexpr double kMistrustMemory = 0.8;
/// A change tells something only if it stands out of the signal's noise by this many deviations.
constexpr double kTelling = 4;
/// Deviation of a signal that is assumed at first, for about so many changes, and the least that
/// is ever believed in. Large at first: only a change of nearly all there is tells something.
constexpr double kFirstScale = 0.12, kFirstScaleWeight = 4, kLeastScale = 1e-4;
/// Changes are clipped at three deviations when the noise is learnt, over about this many.
constexpr double kScaleClip = 9, kScaleMemory = 100;

}  // namespace

SignalModel::SignalModel()
    : scale_weight_(kFirstScaleWeight),
      promised_(kFirstPromise),
      missed_(kFirstPromise * kFirstMistrust) {
  weights_.setZero();
  covariance_.setIdentity();
  covariance_ *= kWeightSpread * kWeightSpread;
  scale_.setConstant(kFirstScale * kFirstScale);
}

SignalVector SignalModel::noise_limits() const { return kTelling * kTelling * scale_; }

namespace {

/// Returns `change` without the parts whose squares are within `limits`.
inline SignalVector informative_part(const SignalVector& change, const SignalVector& limits) {
  SignalVector out = change;
  for (Eigen::Index i = 0; i < out.size(); ++i) {
    if (out(i) * out(i) <= limits(i)) out(i) = 0;
  }
  return out;
}

}  // namespace

SignalModel::Hint SignalModel::hint(const SignalVector& change) const {
  const SignalVector told = informative_part(change, noise_limits());
  if (told.isZero(0)) return {};
  const double mean = weights_.dot(told);
  const double mistrust = std::clamp(missed_ / promised_, kLeastMistrust, 1.0);
  return {mean, told.dot(covariance_ * told) + mistrust * mean * mean};
}

void SignalModel::add_surprise(const SignalVector& change, double error, double variance) {
  lessons_.push_back({change, error, variance});
}

/// The noise of the signals after these lessons.
SignalVector SignalModel::learnt_scale() const {
  SignalVector sum = SignalVector::Zero();
  for (const Lesson& lesson : lessons_) {
    sum += lesson.change.cwiseAbs2().cwiseMin(kScaleClip * scale_) - scale_;
  }
  return (scale_ + sum / scale_weight_).cwiseMax(kLeastScale * kLeastScale);
}

/// Compares the hints with the measured times.
void SignalModel::judge_signals() {
  double promised = 0, missed = 0;
  for (const Lesson& lesson : lessons_) {
    const double said = weights_.dot(lesson.change);
    promised += said * said;
    missed += said == 0 ? 0 : std::pow(lesson.error - said, 2);
  }
  if (promised == 0) return;
  promised_ = kMistrustMemory * promised_ + promised;
  missed_ = kMistrustMemory * missed_ + std::min(missed, promised);
}

void SignalModel::update_weights() {
  if (lessons_.empty()) return;
  const auto count = static_cast<double>(lessons_.size());
  scale_weight_ = std::max(std::min(scale_weight_ + count, kScaleMemory), count);
  const SignalVector scale_of_lessons = learnt_scale();
  const SignalVector limits = noise_limits();
  for (Lesson& lesson : lessons_) lesson.change = informative_part(lesson.change, limits);
  scale_ = scale_of_lessons;
  std::erase_if(lessons_, [](const Lesson& lesson) { return lesson.change.isZero(0); });
  judge_signals();
  for (const Lesson& lesson : lessons_) {
    const SignalVector spread = covariance_ * lesson.change;
    const SignalVector gain = spread / (lesson.variance + lesson.change.dot(spread));
    weights_ += gain * (lesson.error - weights_.dot(lesson.change));
    covariance_ -= gain * spread.transpose();
  }
  // Forgets, but never beyond the initial uncertainty.
  const double most = kWeightSpread * kWeightSpread * kSignals;
  const bool taught = !lessons_.empty() && covariance_.trace() < kForgetting * most;
  if (taught) covariance_ /= kForgetting;
  lessons_.clear();
}

}  // namespace orrery
