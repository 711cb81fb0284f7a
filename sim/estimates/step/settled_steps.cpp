#include "sim/estimates/step/settled_steps.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::estimates {
namespace {

/// Steps of each job before the first counted one; fewest counted steps if all steps of all jobs
/// take equally long.
constexpr std::size_t kBefore = 8, kLeast = 8;
/// Numbers of counted steps if jobs drift against each other: least of the fastest job, least of
/// each job, most of the slowest job.
constexpr std::size_t kLeastDrifting = 256, kLeastSlow = 32, kMost = 512;
constexpr std::size_t kBatches = 8;
constexpr double kEqual = 1e-6;  ///< relative difference of steps
/// Relative difference of the means of two halves, and relative standard error of the mean.
constexpr double kSettled = 1e-3;

/// Returns true if all counted steps of all jobs take equally long.
bool are_in_step(const std::vector<const StepDurations*>& jobs) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const StepDurations* job : jobs) {
    if (job->counted() < kLeast) return false;
    const auto [shortest, longest] = job->range();
    least = std::min(least, shortest);
    most = std::max(most, longest);
  }
  return most - least <= kEqual * most;
}

}  // namespace

void StepDurations::add_step(double duration) {
  if (durations_.size() >= kBefore) {
    least_ = std::min(least_, duration);
    most_ = std::max(most_, duration);
  }
  sums_.push_back(sums_.back() + duration);
  durations_.push_back(duration);
}

std::size_t StepDurations::counted() const {
  return durations_.size() - std::min(durations_.size(), kBefore);
}

std::size_t StepDurations::closest_to_mean() const {
  const double mean = this->mean();
  const auto closest = std::min_element(
      durations_.begin() + kBefore, durations_.end(),
      [mean](double a, double b) { return std::abs(a - mean) < std::abs(b - mean); });
  return static_cast<std::size_t>(closest - durations_.begin());
}

bool StepDurations::is_settled() const {
  if (counted() >= kMost) return true;
  if (counted() < kLeastSlow) return false;
  return counted() < kLeastDrifting ? standard_error() <= kSettled : has_equal_halves();
}

bool StepDurations::has_equal_halves() const {
  const std::size_t count = durations_.size(), middle = kBefore + counted() / 2;
  const double early = mean(kBefore, middle), late = mean(middle, count);
  return std::abs(early - late) <= kSettled * late;
}

/// Returns the relative standard error of the mean of the counted steps by the method of batch
/// means (Law and Carson, Operations Research 27, 1979): steps of one batch may depend on each
/// other.
double StepDurations::standard_error() const {
  const std::size_t length = counted() / kBatches;
  const std::size_t first = durations_.size() - kBatches * length;
  const double mean = this->mean(first, durations_.size());
  double squares = 0;
  for (std::size_t i = 0; i < kBatches; ++i) {
    const double off = this->mean(first + i * length, first + (i + 1) * length) - mean;
    squares += off * off;
  }
  return std::sqrt(squares / (kBatches * (kBatches - 1))) / mean;
}

bool are_settled(const std::vector<const StepDurations*>& jobs) {
  if (are_in_step(jobs)) return true;
  const bool is_enough = std::any_of(jobs.begin(), jobs.end(), [](const StepDurations* job) {
    return job->counted() >= kLeastDrifting;
  });
  return is_enough && std::all_of(jobs.begin(), jobs.end(),
                                  [](const StepDurations* job) { return job->is_settled(); });
}

}  // namespace orrery::estimates
