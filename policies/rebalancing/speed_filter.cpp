#include "policies/rebalancing/speed_filter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace orrery {
namespace {

/// A slope fades by this factor a step: no trend goes on for ever.
constexpr double kDamping = 0.98;
/// Variance that level and slope gain per step, as a share of the step noise. The pair follows a
/// ramp within about eight steps and keeps the error of a forecast twelve steps ahead below
/// twice the noise of a step.
constexpr double kLevelDrift = 1e-2;
constexpr double kSlopeDrift = 8e-3;
/// Initial variance of the slope as a fraction of the step noise: about the value at which the
/// drift above settles.
constexpr double kSlopeAtStart = 4e-2;
/// Standard deviations at which a sample is an outlier.
constexpr double kGate = 5;
/// A surprise beyond three deviations (squared: this) says that the state moved more than the
/// drift allows for: doubt in it grows in proportion, up to a limit, so that it follows faster.
constexpr double kAlarm = 9, kMostAlarm = 10;
/// A gap longer than this many steps forgets the slope.
constexpr Step kLongGap = 8;

constexpr double kFirstNoise = 0.02;   ///< deviation assumed before anything was measured
constexpr double kLeastNoise = 0.002;  ///< never believe in less
constexpr double kFirstWeight = 1;     ///< steps that the first guess counts for
constexpr double kMemory = 15;         ///< number of steps over which the noise is averaged
/// Surprises are clipped at two deviations; this is what that leaves of a normal variance.
constexpr double kClip = 4;
constexpr double kClippedShare = 0.9206;

/// Returns kDamping to the power of a number of steps. Most forecasts are a few steps ahead.
double damping_over(Step steps) {
  static const std::array<double, 32> kPowers = [] {
    std::array<double, 32> powers{};
    for (std::size_t i = 0; i < powers.size(); ++i) {
      powers[i] = std::pow(kDamping, static_cast<double>(i));
    }
    return powers;
  }();
  return steps < kPowers.size() ? kPowers[steps] : std::pow(kDamping, static_cast<double>(steps));
}

double floored(double variance) { return std::max(variance, kLeastNoise * kLeastNoise); }

}  // namespace

JobNoise::JobNoise(std::size_t rank_count)
    : step(kFirstNoise * kFirstNoise),
      sample(kFirstNoise * kFirstNoise),
      ranks(static_cast<double>(rank_count)),
      step_weight(kFirstWeight * ranks),
      sample_weight(kFirstWeight * ranks) {}

void JobNoise::learn_step(double surprise, double expected) {
  const double seen = std::min(surprise * surprise / expected, kClip) / kClippedShare;
  const double weight = std::min(step / expected, 1.0);  // the rest is not noise of the step
  new_steps_.sum += weight * step * (seen - 1);
  new_steps_.weight += weight;
}

void JobNoise::learn_samples(double scatter, double count) {
  new_samples_.sum += (scatter - sample) * (count - 1);
  new_samples_.weight += count - 1;
  new_samples_.reports += 1;
}

bool JobNoise::update_noise() {
  const bool any = new_steps_.weight > 0 || new_samples_.weight > 0;
  if (new_steps_.weight > 0) {
    step_weight = std::min(step_weight + new_steps_.weight, kMemory * ranks);
    step = floored(step + new_steps_.sum / std::max(step_weight, new_steps_.weight));
  }
  if (new_samples_.weight > 0) {
    const double most = kMemory * ranks * new_samples_.weight / new_samples_.reports;
    sample_weight = std::min(sample_weight + new_samples_.weight, most);
    sample = floored(sample + new_samples_.sum / std::max(sample_weight, new_samples_.weight));
  }
  new_steps_ = new_samples_ = {};
  return any;
}

// ---- time -----------------------------------------------------------------------------------

void SpeedFilter::carry_trend(Belief& belief, Step steps, const JobNoise& noise) {
  Eigen::Matrix2d transition;
  transition << 1, kDamping, 0, kDamping;
  for (Step i = 0; i < std::min(steps, kLongGap); ++i) {
    belief.state = transition * belief.state;
    belief.covariance = transition * belief.covariance * transition.transpose();
    belief.covariance(0, 0) += kLevelDrift * noise.step;
    belief.covariance(1, 1) += kSlopeDrift * noise.step;
  }
  if (steps > kLongGap) {
    belief.state(1) = 0;
    belief.covariance(0, 1) = belief.covariance(1, 0) = 0;
    belief.covariance(1, 1) = kSlopeAtStart * noise.step;
  }
}

SpeedFilter::Belief SpeedFilter::now(const JobNoise& noise, bool hinted) const {
  // Numbers instead of vectors: two at once take longer to bring together than to compute.
  double level = state_(0), slope = state_(1);
  double of_level = covariance_(0, 0), of_slope = covariance_(1, 1);
  double upper = covariance_(0, 1), lower = covariance_(1, 0);
  if (hinted) {
    level += hint_.mean;
    of_level += hint_.variance;
  }
  if (count_ != 0) {
    const double variance = noise.step + noise.sample / count_;
    const double surprise = sum_ / count_ - level;
    const double excess = surprise * surprise / (of_level + variance) / kAlarm;
    if (excess > 1) {
      const double factor = std::min(excess, kMostAlarm);
      of_level *= factor, of_slope *= factor, upper *= factor, lower *= factor;
    }
    const double total = of_level + variance;
    const double gain = of_level / total, gain_of_slope = lower / total;
    level += gain * surprise;
    slope += gain_of_slope * surprise;
    lower -= gain_of_slope * of_level;
    of_slope -= gain_of_slope * upper;
    of_level -= gain * of_level;
    upper -= gain * upper;
  }
  Belief belief;
  belief.state << level, slope;
  belief.covariance << of_level, upper, lower, of_slope;
  return belief;
}

std::optional<SpeedFilter::Surprise> SpeedFilter::finish_step(JobNoise& noise) {
  if (count_ == 0) return {};
  const double mean = sum_ / count_;
  const double variance = expected_variance_ + noise.step + noise.sample / count_;
  const Surprise surprise{step_, mean - expected_, variance};
  ++steps_measured_;
  if (jumped_) return surprise;
  noise.learn_step(surprise.error - hint_.mean, variance + hint_.variance);
  if (count_ > 1) {
    const double scatter = (squares_ - count_ * mean * mean) / (count_ - 1);
    noise.learn_samples(std::max(scatter, 0.0), count_);
  }
  return surprise;
}

std::optional<SpeedFilter::Surprise> SpeedFilter::advance_to(Step step, JobNoise& noise) {
  if (known_ && step <= step_) return {};
  std::optional<Surprise> surprise;
  if (known_) {
    Belief belief = now(noise, true);
    surprise = finish_step(noise);
    carry_trend(belief, step - step_, noise);
    state_ = belief.state;
    covariance_ = belief.covariance;
  }
  step_ = step;
  hint_ = next_hint_.step == step ? next_hint_ : Hint{};
  count_ = sum_ = squares_ = 0;
  jumped_ = false;
  expected_ = state_(0);
  expected_variance_ = covariance_(0, 0);
  return surprise;
}

// ---- evidence -------------------------------------------------------------------------------

void SpeedFilter::start_at(double log_time, const JobNoise& noise) {
  known_ = jumped_ = true;  // a jump from nowhere: no surprise to learn from
  state_ << log_time, 0;
  covariance_ << 1, 0, 0, kSlopeAtStart * noise.step;
  expected_ = log_time;
  expected_variance_ = 1;
  accept_measurement(log_time);
}

void SpeedFilter::accept_measurement(double log_time) {
  ++count_;
  sum_ += log_time;
  squares_ += log_time * log_time;
  held_count_ = 0;
  bound_ = 0;
}

void SpeedFilter::jump_to(double log_time, double distance, const JobNoise& noise) {
  const double held = held_;
  jumped_ = true;
  state_(1) = 0;
  covariance_ << covariance_(0, 0) + distance * distance, 0, 0, kSlopeAtStart * noise.step;
  count_ = sum_ = squares_ = 0;
  accept_measurement(held);
  accept_measurement(log_time);
}

void SpeedFilter::add_to(const Level& level, double log_time, const JobNoise& noise) {
  const double gate = kGate * std::sqrt(level.variance + noise.step + noise.sample);
  const double distance = log_time - level.log_time;
  if (std::abs(distance) <= gate) return accept_measurement(log_time);
  const bool confirmed = held_count_ > 0 && (held_ > level.log_time) == (distance > 0);
  if (confirmed) return jump_to(log_time, distance, noise);
  held_ = log_time;
  held_count_ = 1;
}

void SpeedFilter::add_measurement(double seconds, JobNoise& noise) {
  const double log_time = std::log(seconds);
  if (!known_) return start_at(log_time, noise);
  add_to(estimate(noise).level, log_time, noise);
}

bool SpeedFilter::add_plausible(double log_time, double most, const Level& level,
                                const JobNoise& noise) {
  const bool is_bound = bound_ != 0 && bound_step_ <= step_;
  const double due = is_bound ? std::max(level.log_time, std::log(bound_)) : level.log_time;
  if (std::abs(log_time - due) > most) return false;
  add_to(level, log_time, noise);
  return true;
}

bool SpeedFilter::at_least(Step step, double seconds, const JobNoise& noise) {
  if (!known_ || step < step_) return false;
  // The uncertainty of hints does not excuse a missing micro-batch.
  const Prediction due = forecast(step, noise, false);
  const double distance = std::log(seconds) - due.log_time;
  const double spread = std::hypot(due.deviation, std::sqrt(noise.step + noise.sample));
  if (distance <= kGate * spread) return false;
  bound_ = seconds;
  bound_step_ = step;
  return true;
}

bool SpeedFilter::hint(Step step, double mean, double variance) {
  if (step < step_) return false;
  Hint& place = step == step_ ? hint_ : next_hint_;
  return std::exchange(place, Hint{step, mean, variance}) != place;
}

// ---- forecasts ------------------------------------------------------------------------------

SpeedFilter::Belief SpeedFilter::belief_for(Step target, const JobNoise& noise, bool hinted) const {
  Belief belief = now(noise, hinted);
  if (hinted && next_hint_.step > step_ && next_hint_.step <= target) {
    belief.state(0) += next_hint_.mean;
    belief.covariance(0, 0) += next_hint_.variance;
  }
  return belief;
}

Eigen::RowVector2d SpeedFilter::reach_of(Step target) const {
  return {1, slopes_over(target > step_ ? target - step_ : 0)};
}

SpeedFilter::Prediction SpeedFilter::forecast(Step target, const JobNoise& noise,
                                              bool hinted) const {
  const Belief belief = belief_for(target, noise, hinted);
  const Eigen::RowVector2d reach = reach_of(target);
  const double variance = (reach * belief.covariance * reach.transpose()).value();
  return {(reach * belief.state).value(), std::sqrt(std::max(variance, 0.0))};
}

SpeedFilter::Prediction SpeedFilter::predict_step(Step target, const JobNoise& noise) const {
  Prediction due = forecast(target, noise, true);
  if (bound_ == 0 || bound_step_ > target) return due;
  due.log_time = std::max(due.log_time, std::log(bound_));
  due.deviation = std::min(due.deviation, forecast(target, noise, false).deviation);
  return due;
}

double SpeedFilter::predict_log_time(Step target, const Level& level) const {
  const bool hinted_by_then = next_hint_.step > step_ && next_hint_.step <= target;
  const double log_time = hinted_by_then ? level.log_time + next_hint_.mean : level.log_time;
  const double due = log_time + slopes_over(target > step_ ? target - step_ : 0) * level.slope;
  return bound_ == 0 || bound_step_ > target ? due : std::max(due, std::log(bound_));
}

SpeedFilter::Estimate SpeedFilter::estimate(const JobNoise& noise) const {
  const Belief belief = now(noise, true);
  const bool hinted_later = next_hint_.step > step_ && next_hint_.mean != 0;
  return {.level = {belief.state(0), belief.covariance(0, 0), belief.state(1)},
          .slope_variance = belief.covariance(1, 1),
          .step = step_,
          .known = known_,
          .decides_alone = bound_ == 0 && !hinted_later};
}

double SpeedFilter::slopes_over(Step steps) {
  return kDamping * (1 - damping_over(steps)) / (1 - kDamping);
}

}  // namespace orrery
