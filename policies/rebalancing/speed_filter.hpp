// Speed of one rank and its trend: a Kalman filter (local linear trend, damped) over the logarithm
// of its micro-batch time, with one prediction for each optimizer step. Used by
// predictive_rebalance; one thread. Times are seconds, log times natural logarithms of seconds,
// deviations standard deviations of a log time, so about relative errors. All samples of one step
// share the noise of that step, so their average enters as one measurement when the step is over; a
// prediction during the step uses the samples so far. Two consecutive outliers on one side are a
// jump: the level is found again. For example, samples of 1.00, 1.00, 1.10 and 1.10 s are a jump to
// 1.10 s, not a trend.
#pragma once

#include <cstdint>
#include <optional>

#include <Eigen/Core>

#include "core/ids.hpp"

namespace orrery {

/// Noise of the ranks of a job: variances of log times. Learned from the surprises of all ranks
/// together, clipped so that a real slow-down does not count as noise.
struct JobNoise {
  /// Starts with a deviation of 2% of both kinds.
  explicit JobNoise(std::size_t ranks = 1);

  /// Adds the mean of a step, which was `surprise` off where a variance of `expected` > 0 was due;
  /// surprises beyond two deviations count as two. Takes effect at the next update_noise(), so the
  /// order of the ranks does not matter.
  void learn_step(double surprise, double expected);
  /// Adds `count` samples, two or more, of one step with variance `scatter` around their mean.
  /// Takes effect at the next update_noise().
  void learn_samples(double scatter, double count);
  /// Updates the variances with the observations since the last call; no effect without any.
  /// Returns true if there were some.
  bool update_noise();

  double step;         ///< variance of a step's mean around the rank's trend
  double sample;       ///< variance of one sample around the step's mean
  double ranks;        ///< number of ranks that contribute
  double step_weight;  ///< number of surprises behind `step`, with forgetting
  double sample_weight;

 private:
  struct Pending {
    double sum = 0, weight = 0, reports = 0;
  };
  Pending new_steps_, new_samples_;
};

/// Kalman filter of one rank.
class SpeedFilter {
 public:
  /// Predicted log time.
  struct Prediction {
    double log_time = 0;
    double deviation = 0;
  };
  /// Log time at the current step and its trend, with all measurements and the hint for this step.
  struct Level {
    double log_time = 0;
    double variance = 0;  ///< variance of the log time
    double slope = 0;     ///< change of the log time per step
  };
  /// Level with everything that a forecast from many ranks needs.
  struct Estimate {
    Level level;
    double slope_variance = 0;
    Step step = 0;       ///< current step
    bool known = false;  ///< false before the first measurement
    /// true: the log time of predict_step(step + n) is log_time + slopes_over(n) * slope; false: a
    /// late micro-batch or a hint for a later step changes it
    bool decides_alone = true;
  };
  /// Difference between a finished step and its prediction without hints.
  struct Surprise {
    Step step = 0;
    double error = 0;
    double variance = 0;
  };

  /// Ends the current step and begins `step`: the measurements so far update the state and are
  /// given to `noise`, and the trend is carried over. Before the first measurement it only sets the
  /// step; later it has no effect, and returns nothing, unless `step` is later than the current
  /// step. Returns the surprise of the ended step; nothing if it had no measurements.
  std::optional<Surprise> advance_to(Step step, JobNoise& noise);
  /// Adds the duration of a micro-batch of the current step in seconds (finite, > 0). An outlier
  /// counts only if the next outlier is on the same side and no other measurement comes between:
  /// then both are a jump, which replaces the measurements of the step. A measurement that counts
  /// ends the doubt of at_least(). `noise` is only read.
  void add_measurement(double seconds, JobNoise& noise);
  /// Adds a measurement as add_measurement() does, given as log time, unless it differs from the
  /// log time of predict_step(step()) by more than `most`. Returns true if it did not. `level` is
  /// that of estimate(noise). Precondition: is_known().
  bool add_plausible(double log_time, double most, const Level& level, const JobNoise& noise);
  /// Records that a micro-batch of `step` takes at least `seconds` > 0, because it has not ended
  /// yet. No effect before the first measurement, for an earlier step, or unless it contradicts the
  /// prediction; the next measurement that counts replaces it. Returns true if it had an effect.
  bool at_least(Step step, double seconds, const JobNoise& noise);
  /// Sets the hint from other signals: the log time changes by `mean` at `step`, with this
  /// variance. Replaces an earlier hint for the current or for a later step; ignored for an earlier
  /// step. Returns true if a hint is another than before.
  bool hint(Step step, double mean, double variance);

  /// Returns true if a measurement exists.
  bool is_known() const { return known_; }
  /// Returns the current step.
  Step step() const { return step_; }
  /// Returns the number of steps that ended with a measurement.
  std::uint64_t steps_measured() const { return steps_measured_; }
  /// Returns true if the newest evidence is a late micro-batch of unknown duration.
  bool is_bounded() const { return bound_ > 0; }
  /// Returns true if an outlier or a late micro-batch waits for confirmation.
  bool is_doubtful() const { return held_count_ > 0 || is_bounded(); }

  /// Returns the prediction for `target`, with hints and the trend carried from the current step;
  /// for a `target` before the current step, the prediction for the current step. A late
  /// micro-batch of a step up to `target` is a lower bound. Precondition: is_known().
  Prediction predict_step(Step target, const JobNoise& noise) const;
  /// Returns the log time of predict_step() without its deviation, which costs more than half of a
  /// prediction. `level` is that of estimate(noise). Precondition: is_known().
  double predict_log_time(Step target, const Level& level) const;
  /// Returns the estimate, which is valid until the filter or the noise changes.
  Estimate estimate(const JobNoise& noise) const;

  /// Returns the change of the log time over the next `steps` steps, as a multiple of the slope.
  static double slopes_over(Step steps);

  /// Writes every field, in a fixed order, to a ByteWriter, or reads it from a ByteReader.
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.state_(0), self.state_(1), self.covariance_(0, 0), self.covariance_(0, 1),
            self.covariance_(1, 0), self.covariance_(1, 1), self.step_, self.known_,
            self.steps_measured_, self.count_, self.sum_, self.squares_, self.jumped_, self.held_,
            self.held_count_, self.bound_, self.bound_step_, self.hint_, self.next_hint_,
            self.expected_, self.expected_variance_);
  }

 private:
  struct Belief {
    Eigen::Vector2d state;
    Eigen::Matrix2d covariance;
  };
  struct Hint {
    Step step = 0;
    double mean = 0, variance = 0;
    bool operator==(const Hint&) const = default;
  };
  /// Returns the belief about the current step, with all measurements and, if `hinted`, the hint.
  Belief now(const JobNoise& noise, bool hinted) const;
  /// Returns the belief about the current step, with the hint for a later step up to `target`.
  Belief belief_for(Step target, const JobNoise& noise, bool hinted) const;
  /// Returns the factors of level and slope in the log time at `target`.
  Eigen::RowVector2d reach_of(Step target) const;
  Prediction forecast(Step target, const JobNoise& noise, bool hinted) const;
  static void carry_trend(Belief& belief, Step steps, const JobNoise& noise);
  void start_at(double log_time, const JobNoise& noise);
  /// Adds a measurement of a known filter whose level is `level`.
  void add_to(const Level& level, double log_time, const JobNoise& noise);
  void jump_to(double log_time, double distance, const JobNoise& noise);
  std::optional<Surprise> finish_step(JobNoise& noise);
  void accept_measurement(double log_time);

  Eigen::Vector2d state_ = Eigen::Vector2d::Zero();  ///< log time and its change per step
  Eigen::Matrix2d covariance_ = Eigen::Matrix2d::Zero();
  Step step_ = 0;
  bool known_ = false;
  bool jumped_ = false;  ///< true if a jump was found in the current step
  std::uint64_t steps_measured_ = 0;
  double count_ = 0, sum_ = 0, squares_ = 0;  ///< sums over the current step's log times
  double held_ = 0;                           ///< outlier without confirmation
  std::uint64_t held_count_ = 0;
  double bound_ = 0;  ///< seconds; 0: none
  Step bound_step_ = 0;
  Hint hint_, next_hint_;                        ///< for the current step, and for a later one
  double expected_ = 0, expected_variance_ = 0;  ///< prior of the current step, without a hint
};

}  // namespace orrery
