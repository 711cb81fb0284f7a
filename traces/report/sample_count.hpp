// Number of training samples of the steps of a job, which can be rolled back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery {

/// Sum of the samples of steps. Memory: one entry for each change of the batch. For example, 10
/// steps of 64 samples and 5 of 32 are 800 samples; rolled back by 6 steps, 576.
class SampleCount {
 public:
  /// Adds `steps` steps of `each` samples.
  void add_steps(std::uint64_t steps, std::uint64_t each) {
    if (steps == 0) return;
    if (!runs_.empty() && runs_.back().second == each) {
      runs_.back().first += steps;
    } else {
      runs_.emplace_back(steps, each);
    }
  }
  /// Removes the newest `steps` steps, or all if there are no more.
  void roll_back(std::uint64_t steps) {
    while (steps > 0 && !runs_.empty()) {
      const std::uint64_t gone = std::min(steps, runs_.back().first);
      steps -= gone;
      if ((runs_.back().first -= gone) == 0) runs_.pop_back();
    }
  }
  /// Returns the number of samples.
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [steps, each] : runs_) sum += steps * each;
    return sum;
  }
  /// Returns the runs of equal steps, oldest first: their number, and the samples of each.
  const std::vector<std::pair<std::uint64_t, std::uint64_t>>& runs() const { return runs_; }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs_;
};

}  // namespace orrery
