// How fast one rank is and where that is going: a Kalman filter (local linear trend, damped) over
// the logarithm of its micro-batch time, one prediction per optimizer step. Used by
// predictive_rebalance; one thread. Times are seconds, log times natural logarithms of seconds,
// deviations standard deviations of a log time, so about relative errors.
//
// All samples of one step share the noise of that step, so they are averaged and enter as one
// measurement when the step is over; a prediction made during the step uses what there is.
// Two samples in a row far off on one side are a jump: the level is let go and found anew.
#pragma once

#include <cstdint>
#include <optional>

#include <Eigen/Core>

#include "core/ids.hpp"

namespace orrery {

/// What the ranks of a job have shown of their noise: variances of log times. Learnt from the
/// surprises of all ranks together, clipped so that a real slow-down is not taken for noise.
struct JobNoise {
  explicit JobNoise(std::size_t ranks = 1);

  /// A step's mean was `surprise` off where a variance of `expected` was due. Counts from the
  /// next settle() on, so that the order of the ranks does not matter.
  void learn_step(double surprise, double expected);
  /// `count` samples of one step scattered with variance `scatter` around their mean.
  void learn_samples(double scatter, double count);
  /// Takes in what was learnt from the samples of one instant.
  void settle();

  double step;         ///< of a step's mean around the rank's trend
  double sample;       ///< of one sample around the step's mean
  double ranks;        ///< how many feed it
  double step_weight;  ///< surprises behind `step`, forgetting included
  double sample_weight;

 private:
  struct Pending {
    double sum = 0, weight = 0, reports = 0;
  };
  Pending new_steps_, new_samples_;
};

class SpeedFilter {
 public:
  struct Prediction {
    double log_time = 0;
    double deviation = 0;
  };
  /// Change of the log time per step.
  struct Trend {
    double slope = 0;
    double deviation = 0;
  };
  /// How far a finished step was from what was predicted for it without any hint.
  struct Surprise {
    Step step = 0;
    double error = 0;
    double variance = 0;
  };

  /// Moves on to `step`: what was measured so far becomes the state, the trend is carried over.
  /// No effect unless `step` is later than the current one. Returns the surprise of the step
  /// that is now over, if anything was measured in it.
  std::optional<Surprise> advance(Step step, JobNoise& noise);
  /// A micro-batch of the current step took `seconds` (finite, > 0).
  void measure(double seconds, JobNoise& noise);
  /// A micro-batch of `step` takes at least this long: it has not finished yet. Matters only if
  /// it contradicts the prediction; the next measurement replaces it.
  void at_least(Step step, double seconds, const JobNoise& noise);
  /// Other signals say that the log time changes by `mean` at `step`, give or take a variance.
  void hint(Step step, double mean, double variance);

  bool known() const { return known_; }
  Step step() const { return step_; }
  /// Steps that ended with a measurement.
  std::uint64_t steps_measured() const { return steps_measured_; }
  /// The newest evidence is that a micro-batch is late; its time is not known yet.
  bool bounded() const { return bound_ > 0; }
  /// An outlier, or a late micro-batch, is waiting for confirmation.
  bool doubtful() const { return held_count_ > 0 || bounded(); }

  /// Needs known(). The trend is carried from the current step to `target`.
  Prediction predict(Step target, const JobNoise& noise) const;
  Trend trend(const JobNoise& noise) const;

  /// Every field, in a fixed order, to a ByteWriter or from a ByteReader.
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    for (int i = 0; i < 2; ++i) archive(self.state_(i));
    for (int i = 0; i < 4; ++i) archive(self.covariance_(i / 2, i % 2));
    archive(self.step_, self.known_, self.steps_measured_, self.count_, self.sum_, self.squares_,
            self.jumped_, self.held_, self.held_count_, self.bound_, self.bound_step_, self.hint_,
            self.next_hint_, self.expected_, self.expected_variance_);
  }

 private:
  struct Belief {
    Eigen::Vector2d state;
    Eigen::Matrix2d covariance;
  };
  struct Hint {
    Step step = 0;
    double mean = 0, variance = 0;
  };
  /// Of the current step, with all measurements and, if `hinted`, the hint.
  Belief now(const JobNoise& noise, bool hinted) const;
  Prediction forecast(Step target, const JobNoise& noise, bool hinted) const;
  static void carry(Belief& belief, Step steps, const JobNoise& noise);
  void start_at(double log_time, const JobNoise& noise);
  void jump(double log_time, double distance, const JobNoise& noise);
  std::optional<Surprise> finish(JobNoise& noise);
  void accept(double log_time);

  Eigen::Vector2d state_ = Eigen::Vector2d::Zero();  ///< log time and its change per step
  Eigen::Matrix2d covariance_ = Eigen::Matrix2d::Zero();
  Step step_ = 0;
  bool known_ = false;
  bool jumped_ = false;  ///< in the current step
  std::uint64_t steps_measured_ = 0;
  double count_ = 0, sum_ = 0, squares_ = 0;  ///< of the current step's log times
  double held_ = 0;                           ///< outlier not yet confirmed
  std::uint64_t held_count_ = 0;
  double bound_ = 0;  ///< seconds; 0: none
  Step bound_step_ = 0;
  Hint hint_, next_hint_;  ///< for the current step, and for a later one
  double expected_ = 0, expected_variance_ = 0;  ///< prior of the current step, without a hint
};

}  // namespace orrery
