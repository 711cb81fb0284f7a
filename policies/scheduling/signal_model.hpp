// What the device and link signals of a rank say about its micro-batch time: recursive least
// squares, shared by all ranks of a job. It learns how a change of the signals from one step to
// the next went with the surprise in the micro-batch time, and turns the next change into a hint
// before the first micro-batch of the step is finished. It starts out knowing nothing, so signals
// that explain nothing have no weight, and changes within a signal's own noise say nothing. Used
// by predictive_rebalance; one thread.
#pragma once

#include <cstddef>
#include <vector>

#include <Eigen/Core>

namespace orrery {

/// GPU load and memory bandwidth (shares of the peak), link latency (logarithm of seconds).
inline constexpr std::size_t kSignals = 3;
using SignalVector = Eigen::Matrix<double, kSignals, 1>;

class SignalModel {
 public:
  struct Hint {
    double mean = 0;      ///< expected change of the log micro-batch time
    double variance = 0;  ///< of that expectation
  };
  SignalModel();

  /// `change`: of one rank's signals against the step before, less the median of all ranks.
  Hint hint(const SignalVector& change) const;
  /// That change went with a surprise of `error` where a variance of `variance` was due. Counts
  /// from the next settle() on, so that the order of the ranks does not matter.
  void learn(const SignalVector& change, double error, double variance);
  /// Takes in what was learnt from the samples of one instant.
  void settle();

  const SignalVector& weights() const { return weights_; }

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
  SignalVector telling(const SignalVector& change) const;
  SignalVector learnt_scale() const;
  void judge();

  SignalVector weights_;
  Eigen::Matrix<double, kSignals, kSignals> covariance_;
  SignalVector scale_;  ///< variance of each signal's changes when nothing happens
  double scale_weight_;  ///< changes behind it, forgetting included
  double promised_, missed_;  ///< sums of squares of hints, and of how far they were off
  std::vector<Lesson> lessons_;  ///< empty between instants
};

}  // namespace orrery
