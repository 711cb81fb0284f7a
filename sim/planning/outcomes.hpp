// Distribution of the end of a long run: the same run played with many seeds, with the predicted
// step time (spread of failures alone) and with step times drawn from the prediction's interval
// (spread of failures and error of the step price together). Called by sim/planning/plan. One
// thread. Seconds, USD, joules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/estimates/predict/interval.hpp"
#include "sim/planning/candidates.hpp"
#include "sim/planning/interruptions.hpp"
#include "sim/planning/long_run.hpp"

namespace orrery::sim {

/// Quantiles of a quantity. Infinite where so many played runs never end.
struct Quantiles {
  double p10 = 0, p50 = 0, p90 = 0;
};

/// Mean shares of a run's time; the rest is committed steps.
struct TimeShares {
  double checkpoints = 0, lost_work = 0, detection = 0, recovery = 0, waiting = 0;
  double displaced = 0;  ///< longer steps on spare nodes
};

/// End of a run over all seeds.
struct Outcome {
  Quantiles finish_s;                ///< ends with failures and error of the step price
  Quantiles failures_only_s;         ///< ends with the predicted step time
  std::vector<double> ends_s;        ///< end of each seed, failures and error together
  std::vector<double> alone_ends_s;  ///< end of each seed with the predicted step time
  double goodput = 0;                ///< median with the predicted step time
  double failures = 0;               ///< mean number of losses that stopped the run
  TimeShares shares;                 ///< shares with the predicted step time
  double unfinished = 0;             ///< share of the seeds whose run is given up
};

/// Failures of the seeds 1, 2, ... on the nodes of one cluster, and the errors of the step price.
class Weather {
 public:
  /// The basis must outlive this object.
  Weather(const PlanBasis& basis, std::uint32_t seeds);

  std::size_t seeds() const { return failures_.size(); }
  Interruptions& failures(std::size_t seed) { return failures_[seed]; }
  /// Returns the standard normal number of the seed's error of the step price: midpoints of equally
  /// likely intervals, in an order drawn from a fixed seed.
  double error(std::size_t seed) const { return errors_[seed]; }

 private:
  std::vector<Interruptions> failures_;
  std::vector<double> errors_;
};

/// Returns the factor on the predicted step time at a standard normal number: the logarithm is
/// linear between the prediction's quantiles (2.5, 10, 50, 90, 97.5%) and beyond them. For example,
/// 0 gives 1 and 1.2816 gives p90_s / step_s.
double step_factor(const estimates::Interval& interval, double step_s, double normal);

/// Returns the long run of a candidate with its policies and its checkpoint interval: Daly's for
/// the stall of a checkpoint and the job's failure rate, times the factor of the policies, at least
/// the time in which a checkpoint is written.
/// `every`: steps between two checkpoints; nothing: that interval. `slowdown`: that of an earlier
/// run of the candidate on a cluster of equal nodes; nothing: slowdown_of().
LongRun long_run_of(const PlanBasis& basis, const Candidate& candidate,
                    std::optional<std::uint64_t> every = {}, const Slowdown* slowdown = nullptr);

/// Returns the quantiles of failures alone over the first `seeds` seeds: a cheap first look.
Quantiles failures_only(const LongRun& run, Weather& weather, std::size_t seeds);

/// Plays the first `seeds` seeds with the predicted step time; writes no `finish_s` and no
/// `ends_s`.
Outcome play_alone(const LongRun& run, Weather& weather, std::size_t seeds);

/// Plays all seeds, with and without errors of the step price.
Outcome play_seeds(const LongRun& run, const estimates::Interval& interval, Weather& weather);

/// Returns the quantiles of values; those of no value are infinite.
Quantiles quantiles_of(std::vector<double> values);

}  // namespace orrery::sim
