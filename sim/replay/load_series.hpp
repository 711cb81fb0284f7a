// Use of a cluster over time, in a bounded number of intervals of equal length: they begin as
// minutes and double as a run continues, so a run of any length fits. Called by
// sim/replay/recorded_jobs. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

/// Time series of the cluster's load. For example, a run of 100 hours has 1,500 intervals of 4
/// minutes.
class LoadSeries {
 public:
  static constexpr std::size_t kMostIntervals = 2048;

  /// Load since the last call.
  struct Load {
    double busy_gpus = 0;
    std::uint64_t waiting_jobs = 0;
    double waiting_gpus = 0;
  };
  /// Means over one interval.
  struct Interval {
    double busy_gpus = 0, waiting_jobs = 0, waiting_gpus = 0;
    double fragmentation = 0;  ///< mean over the sampled instants
  };

  /// Constructs an empty series from the instant `begin` on.
  explicit LoadSeries(Nanos begin = 0) : begin_(begin), now_(begin) {}

  /// Adds `load` from now() to `to`, and calls `fragmentation()` at the end of each interval that
  /// ends by `to`; does nothing if `to` is not later than now().
  template <class Fragmentation>
  void hold_load(const Load& load, Nanos to, const Fragmentation& fragmentation) {
    while (now_ < to) {
      const Nanos end = next_border();
      const Nanos until = to < end ? to : end;
      add(load, until - now_);
      now_ = until;
      if (now_ == end) sample_fragmentation(fragmentation());
    }
  }
  /// Returns the instant at which the series begins.
  Nanos begin() const { return begin_; }
  /// Returns the length of an interval so far; it doubles when kMostIntervals are full, and pairs
  /// of intervals become one.
  Nanos width() const { return width_; }
  /// Returns the instant up to which load was added; begin() at first.
  Nanos now() const { return now_; }
  /// Returns the means of all intervals, of which the last may be incomplete; empty if no time has
  /// passed. The fragmentation of an interval without a sample is 0.
  std::vector<Interval> intervals() const;
  /// Returns the means from begin() to now(); all 0 if no time has passed. The fragmentation is 0
  /// if no interval has ended.
  Interval mean() const;
  /// Returns the largest number of waiting jobs that was held for a time > 0; 0 before.
  std::uint64_t most_waiting() const { return most_waiting_; }

 private:
  struct Sum {
    double busy = 0, jobs = 0, gpus = 0;  ///< sums weighted by nanoseconds
    double fragmentation = 0;
    std::uint32_t looks = 0;
  };
  std::size_t current() const { return static_cast<std::size_t>((now_ - begin_) / width_); }
  Nanos next_border() const { return begin_ + static_cast<Nanos>(current() + 1) * width_; }
  void add(const Load& load, Nanos time);
  void sample_fragmentation(double fragmentation);
  static Interval mean_of(const Sum& sum, Nanos time);

  Nanos begin_, now_;
  Nanos width_ = 60 * kNanosPerSecond;
  std::vector<Sum> sums_;
  std::uint64_t most_waiting_ = 0;
};

}  // namespace orrery::sim
