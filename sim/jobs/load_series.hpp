// How a cluster was used over time, in at most so many intervals of equal length: they begin as
// minutes and grow to two, four, eight of them as a run goes on, so that a run of any length fits.
// Called by sim/jobs/recorded_jobs. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

class LoadSeries {
 public:
  static constexpr std::size_t kMostIntervals = 2048;

  /// What has held since the last call.
  struct Load {
    std::uint32_t busy_gpus = 0;
    std::uint64_t waiting_jobs = 0, waiting_gpus = 0;
  };
  /// Means over one interval.
  struct Interval {
    double busy_gpus = 0, waiting_jobs = 0, waiting_gpus = 0;
    double fragmentation = 0;  ///< of its instants that were looked at
  };

  explicit LoadSeries(Nanos begin = 0) : begin_(begin), now_(begin) {}

  /// `load` held up to `to`; `fragmentation()` is asked once an interval.
  template <class Fragmentation>
  void hold(const Load& load, Nanos to, const Fragmentation& fragmentation) {
    while (now_ < to) {
      const Nanos end = next_border();
      const Nanos until = to < end ? to : end;
      add(load, until - now_);
      now_ = until;
      if (now_ == end) look(fragmentation());
    }
  }
  Nanos begin() const { return begin_; }
  Nanos width() const { return width_; }
  Nanos now() const { return now_; }
  std::vector<Interval> intervals() const;
  /// Over everything so far.
  Interval mean() const;
  std::uint64_t most_waiting() const { return most_waiting_; }

 private:
  struct Sum {
    double busy = 0, jobs = 0, gpus = 0;  ///< by nanoseconds
    double fragmentation = 0;
    std::uint32_t looks = 0;
  };
  std::size_t current() const { return static_cast<std::size_t>((now_ - begin_) / width_); }
  Nanos next_border() const { return begin_ + static_cast<Nanos>(current() + 1) * width_; }
  void add(const Load& load, Nanos time);
  void look(double fragmentation);
  static Interval mean_of(const Sum& sum, Nanos time);

  Nanos begin_, now_;
  Nanos width_ = 60 * kNanosPerSecond;
  std::vector<Sum> sums_;
  std::uint64_t most_waiting_ = 0;
};

}  // namespace orrery::sim
