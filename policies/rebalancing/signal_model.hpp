// Prediction of a rank's micro-batch time from device and link signals: recursive least squares,
// shared by all ranks of a job. The model learns the relation between a change of the signals from
// one step to the next and the surprise in the micro-batch time, and turns the next change into a
// hint before the first micro-batch of the step ends. It starts without knowledge, so signals
// without explanatory value have no weight, and changes within a signal's own noise have no effect.
// Used by predictive_rebalance; one thread. For example, if a fall of GPU load by 0.1 came with 10%
// slower micro-batches, the next such fall gives a hint of +0.1 in log time.
#pragma once

#include <cstddef>
#include <vector>

#include <Eigen/Core>

namespace orrery {

/// Number of signals: GPU load and memory bandwidth (fractions of the peak), link latency
/// (logarithm of seconds).
inline constexpr std::size_t kSignals = 3;
using SignalVector = Eigen::Matrix<double, kSignals, 1>;

/// Linear model from signal changes to changes of the log micro-batch time.
class SignalModel {
 public:
  /// Predicted change.
  struct Hint {
    double mean = 0;      ///< expected change of the log micro-batch time
    double variance = 0;  ///< variance of that expectation
  };
  /// Starts without knowledge: every hint has mean 0.
  SignalModel();

  /// Returns the hint for a change of one rank's signals against the previous step, minus the
  /// median of all ranks. Parts of the change within the noise of their signal have no effect: mean
  /// and variance are 0 if all parts are.
  Hint hint(const SignalVector& change) const;
  /// Returns the squares of the largest changes within the noise of the signals: hint() of a change
  /// within all of them is zero.
  SignalVector noise_limits() const;
  /// Adds an observation: a change of signals came with a surprise of `error` where a variance of
  /// `variance` was expected. Takes effect at the next update_weights(), so the order of the ranks
  /// does not matter.
  void add_surprise(const SignalVector& change, double error, double variance);
  /// Updates the weights, the noise of the signals and the trust in hints with the observations
  /// since the last call, and removes these observations; no effect without any.
  void update_weights();

  /// Returns the weights of the signals.
  const SignalVector& weights() const { return weights_; }

  /// Writes every field, in a fixed order, to a ByteWriter, or reads it from a ByteReader.
  /// Observations before the next update_weights() are not included.
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    for (Eigen::Index i = 0; i < self.weights_.size(); ++i) archive(self.weights_(i));
    for (Eigen::Index i = 0; i < self.covariance_.size(); ++i) archive(self.covariance_(i));
    for (Eigen::Index i = 0; i < self.scale_.size(); ++i) archive(self.scale_(i));
    archive(self.scale_weight_), archive(self.promised_), archive(self.missed_);
  }

 private:
  struct Lesson {
    SignalVector change;
    double error, variance;
  };
  SignalVector learnt_scale() const;
  void judge_signals();

  SignalVector weights_;
  Eigen::Matrix<double, kSignals, kSignals> covariance_;
  SignalVector scale_;  ///< variance of each signal's changes without a cause
  double scale_weight_;  ///< number of changes behind `scale_`, with forgetting
  double promised_, missed_;  ///< sums of squares of hints, and of their errors
  std::vector<Lesson> lessons_;  ///< empty between instants
};

}  // namespace orrery
