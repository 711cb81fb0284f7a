// One possible truth about the durations of all jobs, for the intervals of forecasts: the jobs of a
// future share one draw of the unknown distributions. Used by sim/forecast/queue_forecast. One
// thread; seconds.
//
// A kind of jobs with n known durations has any distribution near them: a draw of the posterior of
// a Dirichlet process (Ferguson 1973; without unknown durations the Bayesian bootstrap, Rubin
// 1981). Each known duration has a random weight of mean 1, and so have all unknown durations
// together. Jobs that run count as in the model, with random weights too. Which of its kinds tells
// the duration of a job is one draw for all jobs. The mean over many draws is the distribution of
// the model (DurationModel::of()); but the sum of the durations of many jobs is as uncertain as the
// model is. For example, after one duration of 60 s all jobs of a future may last for one hour.
#pragma once

#include <map>
#include <vector>

#include "core/random.hpp"
#include "sim/forecast/duration_model.hpp"

namespace orrery::sim {

/// Draw of the distributions of all kinds. Valid until the model learns.
class PossibleDurations {
 public:
  /// `which` in [0, 1): the fraction of the weights of a job's kinds at which its kind is found,
  /// which should differ from draw to draw. `rng`: source of this draw.
  PossibleDurations(double which, Rng rng) : which_(which), rng_(rng) {}

  /// Returns the duration of a job that has run for `elapsed_s`, at the fraction `u` in [0, 1) of
  /// its distribution in this draw; at least the elapsed time. `job`: from
  /// DurationModel::kinds_for().
  double draw_duration(const DurationModel::JobKinds& job, double elapsed_s, double u);

 private:
  /// Distribution of one kind in this draw.
  struct Drawn {
    std::vector<double> durations_s, sums;  ///< ascending; sums of the weights up to each

    /// Returns the share of the weights of durations above `elapsed_s`.
    double share_above(double elapsed_s) const;
    /// Returns the duration at the fraction `u` of those above `elapsed_s`, which must exist.
    double quantile_above(double elapsed_s, double u) const;
  };
  const Drawn& drawn_kind(const DurationModel::Weighted& of);
  const Drawn& unknown_kind();
  void add_unknown(double median_s, double error, WeightedDurations& weighted);
  double draw_weight();

  const double which_;
  Rng rng_;
  std::map<const DurationModel::Kind*, Drawn> kinds_;  ///< null: without any known duration
  std::vector<double> shares_;                         ///< shares of the kinds of one job
};

}  // namespace orrery::sim
