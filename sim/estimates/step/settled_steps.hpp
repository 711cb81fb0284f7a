// Durations of the steps of jobs that are simulated together, and the rule by which their means are
// known. Used by sim/estimates/step/side_by_side and sim/estimates/step/joint_run; one thread.
// Seconds.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace orrery::estimates {

/// Durations of the steps of one job, of which the first 8 do not count. Not thread-safe.
///
/// For example, after steps of 3, 1, 1, 1, 1, 1, 1, 1, 2 and 4 s the mean of the two counted steps
/// is 3 s.
class StepDurations {
 public:
  void add_step(double duration);
  /// Returns the number of steps.
  std::size_t count() const { return durations_.size(); }
  /// Returns the number of counted steps.
  std::size_t counted() const;
  /// Returns the durations of the first `count` steps, of which there are as many.
  std::vector<double> first(std::size_t count) const {
    return {durations_.begin(), durations_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  /// Returns the mean of the counted steps. Call only if steps are counted.
  double mean() const { return mean(durations_.size() - counted(), durations_.size()); }
  /// Returns the index of the counted step that is closest to the mean, the first of equal ones.
  /// Call only if steps are counted.
  std::size_t closest_to_mean() const;
  /// Returns the least and the largest counted duration. Call only if steps are counted.
  std::pair<double, double> range() const { return {least_, most_}; }
  /// Returns true if the mean is known within 0.1%, or 512 steps are counted: with at least 256
  /// counted steps if the means of both halves agree, with at least 32 by the standard error.
  bool is_settled() const;

 private:
  /// Returns the mean duration of steps `first` up to `last`, `last` excluded.
  double mean(std::size_t first, std::size_t last) const {
    return (sums_[last] - sums_[first]) / static_cast<double>(last - first);
  }
  bool has_equal_halves() const;
  double standard_error() const;

  std::vector<double> durations_;
  std::vector<double> sums_{0};  ///< duration of the first 0, 1, 2 ... steps together
  double least_ = std::numeric_limits<double>::infinity(), most_ = 0;
};

/// Returns true if the mean of each job's steps is known: if all counted steps of all jobs, at
/// least 8 of each, take equally long, so that the jobs keep their relative phase; or if a job has
/// 256 counted steps and the mean of each is settled. A slow job meets many steps of a fast one in
/// each of its own, so that few of its steps tell the mean. `jobs` is not empty.
bool are_settled(const std::vector<const StepDurations*>& jobs);

}  // namespace orrery::estimates
