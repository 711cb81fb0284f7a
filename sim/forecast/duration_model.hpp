// Durations of jobs, learned from the jobs that have ended: a distribution for a new job, and for a
// job that has run for a while. Only columns known at submission are read: user, virtual cluster,
// size, name with and without digits, time limit. Used by sim/forecast/queue_forecast. One thread;
// seconds.
//
// A job belongs to several kinds: all jobs, those of its size, of its user, of its user and size,
// and so on. Each kind keeps its newest durations. The distribution is a mixture of the kinds of
// the job. The weight of a kind falls with the error of its earlier medians, so that the model
// learns which columns are informative. While the median of the mixture is not better than the
// running median of the size, the distribution is that of the size alone.
//
// A user who requests more time than for an earlier job of the same kind expects a longer job. So
// each type of kinds but the size has an exponent b, the slope of the logarithms of durations over
// those of limits within its kinds, and a known duration d of a job with the limit l counts as
// d (L / l)^b for a job with the limit L. The exponent is 0 until the slope is proven.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/forecast/weighted_durations.hpp"

namespace orrery::sim {

/// Columns of a job that are known at its submission.
struct JobColumns {
  std::uint32_t gpus = 0;
  std::string user = {}, pool = {}, name = {};
  std::int64_t limit_s = 0;  ///< requested time; 0: none
};

/// Distribution of the duration of a job, given the time that the job has run. For example, of a
/// job of a kind with durations of 10 s, 20 s and 60 s that has run for 15 s, 20 s and 60 s are
/// equally likely.
class DurationDistribution {
 public:
  /// Constructs the distribution of the weighted durations above `elapsed_s`. Without any, the
  /// duration is `elapsed_s` / (1 - u) for u uniform in [0, 1). `limit_s`: largest duration; 0:
  /// none.
  DurationDistribution(WeightedDurations weighted, double elapsed_s, double limit_s);
  /// Returns the duration in seconds at the fraction `u` in [0, 1); at least the elapsed time.
  double quantile(double u) const;

 private:
  WeightedDurations cumulative_;  ///< duration, sum of weights up to it
  double elapsed_s_, limit_s_;
};

/// Learner of durations.
class DurationModel {
  struct Kind;
  struct Weighted;

 public:
  /// Kinds whose durations a job may have, with their weights; from kinds_for(), valid until the
  /// model learns.
  struct JobKinds {
    std::vector<Weighted> kinds;  ///< empty before any end
    double guess_s = 0;           ///< median before any end
    double limit_s = 0;           ///< largest duration; 0: none
  };
  /// Estimates of one job at its submission, in seconds.
  struct Medians {
    double model_s = 0;    ///< median of of() without the jobs that run
    double by_size_s = 0;  ///< running median of the size: the baseline
  };

  /// Records the duration of a job that has ended.
  void record_end(const JobColumns& job, double duration_s);
  /// Tells the jobs that run now, with their elapsed seconds: they last longer than these. Read by
  /// of() alone.
  void set_running(const std::vector<std::pair<JobColumns, double>>& running);
  /// Returns the distribution for a job that has run for `elapsed_s`.
  DurationDistribution of(const JobColumns& job, double elapsed_s) const;
  /// Returns the kinds of the job and their weights in the mixture.
  JobKinds kinds_for(const JobColumns& job) const;
  /// Returns the medians for a new job; 3,600 s for both before any end.
  Medians medians(const JobColumns& job) const;

 private:
  friend class PossibleDurations;
  static constexpr std::size_t kWindow = 128;  ///< newest durations of a kind
  static constexpr double kUnknownError = 2;   ///< error of a type of kinds without earlier errors
  static constexpr std::size_t kCountClasses = 8;

  /// Sum that forgets old terms.
  struct FadingSum {
    double sum = 0, weight = 0;
    void add(double value, double memory) {
      sum = sum * memory + value;
      weight = weight * memory + 1;
    }
  };
  /// Ended job of one kind.
  struct Ended {
    double duration_s, limit_s;
  };
  /// Newest durations of one kind, those in `sorted` and `running` over the factor of their limit.
  struct Kind {
    std::vector<double> sorted;
    std::vector<Ended> newest;  ///< ring of the same jobs
    std::size_t oldest = 0;
    std::vector<double> running;  ///< elapsed seconds of the jobs that run, ascending
    FadingSum error;      ///< errors of earlier medians, as differences of natural logarithms
    double exponent = 0;  ///< exponent of the limit, that of the type of kinds
    double limit_s = 0;   ///< limit whose factor is 1: the first one; 0: none

    double median() const { return sorted[sorted.size() / 2]; }
    /// Returns true if the kind forgets ended jobs: those that run do not count then.
    bool is_full() const { return sorted.size() == kWindow; }
    /// Returns the factor of a limit on the durations of this kind.
    double factor_of(double limit) const;
    /// Returns the newest ended job; the kind must have one.
    const Ended& last() const { return newest[(oldest + newest.size() - 1) % newest.size()]; }
    void add(const Ended& job);
    void set_exponent(double to);
  };
  /// Kind of a job with the expected error of its median and its weight.
  struct Weighted {
    const Kind* kind;
    double error;
    double weight;
    double factor = 1;  ///< factor of the limit
  };
  /// Slope of durations over limits in the kinds of one type, from pairs of consecutive jobs.
  struct Slope {
    double xx = 0, xy = 0, xxyy = 0;  ///< fading sums over pairs; x, y: differences of logarithms
    double plain = 0, sloped = 0;     ///< fading sums of |y| and |y - b x|, b from earlier pairs
    double exponent = 0;              ///< exponent of the kinds

    void add(const Ended& before, const Ended& now);
    /// Returns b, between 0 and 1.
    double slope() const;
    /// Returns the slope; 0 unless it is significant and has made the differences smaller.
    double proven() const;
  };

  static std::vector<std::string> kinds_of(const JobColumns& job);
  /// Returns the expected error of a kind: its own, shrunk to that of all kinds of its type and
  /// count of durations.
  double expected_error(char type, const Kind& kind) const;
  std::vector<Weighted> weights(const JobColumns& job) const;
  void learn_slope(char type, const Ended& before, const Ended& now);
  DurationDistribution mixture(const JobKinds& job, double elapsed_s, bool sees_running) const;
  /// Returns the median of the mixture for a new job, without the jobs that run.
  double median_of(const JobKinds& job) const;
  const Kind* size_kind(const JobColumns& job) const;
  const Kind* find(const std::string& key) const;
  double limit_of(const JobColumns& job) const;

  void forget_oldest_name();

  std::map<std::string, Kind> kinds_;
  std::deque<std::string> numbered_;  ///< keys of kinds by a name with digits, in their order
  std::map<char, std::array<FadingSum, kCountClasses>> errors_;  ///< keyed by type of kind
  std::map<char, Slope> slopes_;                                 ///< keyed by type of kind
  FadingSum mixture_error_, size_error_;
  std::uint64_t limited_ = 0, beyond_limit_ = 0;  ///< ended jobs with a limit; those that exceed it
};

}  // namespace orrery::sim
