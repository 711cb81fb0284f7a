#include "sim/forecast/duration_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

namespace orrery::sim {
namespace {

constexpr double kFirstGuess_s = 3600;
constexpr double kShrinkage = 5;       // errors of its type that count beside a kind's own
constexpr double kSharpness = 10;      // fall of the weight with the relative error
constexpr double kLeastWeight = 0.05;  // share of the best kind's; lighter kinds are left out
constexpr double kKindMemory = 0.97, kTypeMemory = 0.999, kGuardMemory = 0.998;
constexpr double kNeededGain = 0.98;  // limit of the mixture's error over that of the size
constexpr double kUnknownError = 2;   // error of a type of kinds without earlier errors
constexpr int kPriorPoints = 9;       // odd: the one in the middle is the median
constexpr double kLongestPrior_s = 1e9;

double log_error(double estimate_s, double duration_s) {
  return std::abs(std::log(std::max(estimate_s, 1.0) / std::max(duration_s, 1.0)));
}

/// Adds durations with the sum of weights `weight` that spread around a median as widely as earlier
/// medians were wrong: log-logistic, whose mean absolute logarithm is its shape times ln 4. After
/// errors of many orders of magnitude, limits the durations to 1 s and to kLongestPrior_s.
void add_prior(double median_s, double error, double weight,
               std::vector<std::pair<double, double>>& weighted) {
  const double shape = error / std::log(4.0);
  for (int i = 0; i < kPriorPoints; ++i) {
    const double u = (i + 0.5) / kPriorPoints;
    const double duration_s = median_s * std::pow(u / (1 - u), shape);
    weighted.push_back({std::clamp(duration_s, std::min(median_s, 1.0),
                                   std::max(median_s, kLongestPrior_s)),
                        weight / kPriorPoints});
  }
}

/// Gives the weights of jobs that still run to the longer durations (estimator of Kaplan and
/// Meier): the jobs that have ended first are the short ones. Beyond all durations the rest is as
/// long as the elapsed time. `running`: elapsed seconds, ascending.
void spread_running(const std::vector<double>& running,
                    std::vector<std::pair<double, double>>& weighted) {
  std::sort(weighted.begin(), weighted.end());
  auto left = static_cast<double>(running.size());
  for (const auto& [duration, weight] : weighted) left += weight;
  double factor = 1;
  auto each = weighted.begin();
  for (const double elapsed_s : running) {
    for (; each != weighted.end() && each->first <= elapsed_s; ++each) {
      left -= each->second;
      each->second *= factor;
    }
    left -= 1;
    if (left > 1e-9) factor *= 1 + 1 / left;
  }
  if (each == weighted.end() && !running.empty()) {
    weighted.emplace_back(2 * running.back(), factor);
    return;
  }
  for (; each != weighted.end(); ++each) each->second *= factor;
}

/// Returns the name without digits: users number the repetitions of a job.
std::string without_digits(const std::string& name) {
  std::string out;
  std::copy_if(name.begin(), name.end(), std::back_inserter(out),
               [](char c) { return c < '0' || c > '9'; });
  return out;
}

}  // namespace

// ---- the distribution -----------------------------------------------------------------------

DurationDistribution::DurationDistribution(std::vector<std::pair<double, double>> weighted,
                                           double elapsed_s, double limit_s)
    : cumulative_(std::move(weighted)),
      elapsed_s_(elapsed_s),
      limit_s_(std::max(limit_s, limit_s > 0 ? elapsed_s : 0)) {
  std::erase_if(cumulative_, [&](const auto& each) { return each.first <= elapsed_s; });
  std::sort(cumulative_.begin(), cumulative_.end());
  double sum = 0;
  for (auto& [duration, weight] : cumulative_) weight = sum += weight;
}

double DurationDistribution::quantile(double u) const {
  double duration = elapsed_s_ / (1 - u);
  if (!cumulative_.empty()) {
    const double target = u * cumulative_.back().second;
    const auto at = std::partition_point(cumulative_.begin(), cumulative_.end() - 1,
                                         [&](const auto& each) { return each.second <= target; });
    duration = at->first;
  }
  return limit_s_ > 0 ? std::min(duration, limit_s_) : duration;
}

// ---- learning -------------------------------------------------------------------------------

void DurationModel::Kind::add(double duration_s) {
  if (newest.size() < kWindow) {
    newest.push_back(duration_s);
  } else {
    sorted.erase(std::lower_bound(sorted.begin(), sorted.end(), newest[oldest]));
    newest[oldest] = duration_s;
    oldest = (oldest + 1) % kWindow;
  }
  sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), duration_s), duration_s);
}

/// The first letter is the type of the kind.
std::vector<std::string> DurationModel::kinds_of(const JobColumns& job) {
  const std::string size = std::to_string(job.gpus), name = without_digits(job.name);
  const std::string limit = std::to_string(job.limit_s);
  std::vector<std::string> kinds{"a", "s" + size};
  if (!job.pool.empty()) {
    kinds.push_back("v" + job.pool);
    kinds.push_back("w" + job.pool + "\n" + size);
  }
  if (job.limit_s > 0) kinds.push_back("l" + limit);
  if (!name.empty()) kinds.push_back("j" + name);
  if (job.user.empty()) return kinds;
  kinds.push_back("u" + job.user);
  kinds.push_back("x" + job.user + "\n" + size);
  if (job.limit_s > 0) kinds.push_back("m" + job.user + "\n" + limit);
  if (!name.empty()) kinds.push_back("n" + job.user + "\n" + size + "\n" + name);
  return kinds;
}

const DurationModel::Kind* DurationModel::find(const std::string& key) const {
  const auto found = kinds_.find(key);
  return found == kinds_.end() ? nullptr : &found->second;
}

const DurationModel::Kind* DurationModel::size_kind(const JobColumns& job) const {
  const Kind* const size = find("s" + std::to_string(job.gpus));
  return size != nullptr ? size : find("a");
}

double DurationModel::limit_of(const JobColumns& job) const {
  const bool holds = beyond_limit_ * 100 <= limited_;
  return holds ? static_cast<double>(job.limit_s) : 0;
}

double DurationModel::expected_error(char type, const Kind& kind) const {
  double typical = kUnknownError;
  if (const auto of_type = errors_.find(type); of_type != errors_.end()) {
    const auto count = static_cast<std::size_t>(std::bit_width(kind.sorted.size()));
    const FadingSum& errors = of_type->second[std::min(count, kCountClasses) - 1];
    if (errors.weight > 0) typical = errors.sum / errors.weight;
  }
  return (kind.error.sum + kShrinkage * typical) / (kind.error.weight + kShrinkage);
}

std::vector<DurationModel::Weighted> DurationModel::weights(const JobColumns& job) const {
  std::vector<Weighted> found;
  double least = 1e9;
  for (const std::string& key : kinds_of(job)) {
    const Kind* const kind = find(key);
    if (kind == nullptr) continue;
    const double error = std::max(expected_error(key[0], *kind), 0.01);
    found.push_back({kind, error, 1});
    least = std::min(least, error);
  }
  for (Weighted& each : found) each.weight = std::exp(-kSharpness * (each.error / least - 1));
  std::erase_if(found, [](const Weighted& each) { return each.weight < kLeastWeight; });
  return found;
}

DurationDistribution DurationModel::mixture(const std::vector<Weighted>& kinds,
                                            const JobColumns& job, double elapsed_s,
                                            bool sees_running) const {
  std::vector<std::pair<double, double>> weighted;
  for (const auto& [kind, error, weight] : kinds) {
    std::vector<std::pair<double, double>> own;
    for (const double duration_s : kind->sorted) own.push_back({duration_s, 1});
    add_prior(kind->median(), error, 1, own);
    auto count = static_cast<double>(kind->sorted.size() + 1);
    const bool forgets = kind->sorted.size() == kWindow;  // ended jobs, but none that runs
    if (sees_running && !kind->running.empty() && !forgets) {
      spread_running(kind->running, own);
      count += static_cast<double>(kind->running.size());
    }
    for (const auto& [duration_s, own_weight] : own) {
      if (duration_s > elapsed_s) weighted.push_back({duration_s, weight * own_weight / count});
    }
  }
  return {std::move(weighted), elapsed_s, limit_of(job)};
}

void DurationModel::record_end(const JobColumns& job, double duration_s) {
  if (const Kind* const size = size_kind(job)) {
    mixture_error_.add(log_error(mixture(weights(job), job, 0, false).quantile(0.5), duration_s),
                       kGuardMemory);
    size_error_.add(log_error(size->median(), duration_s), kGuardMemory);
  }
  if (job.limit_s > 0) {
    ++limited_;
    if (duration_s > static_cast<double>(job.limit_s) + 60) ++beyond_limit_;
  }
  for (const std::string& key : kinds_of(job)) {
    Kind& kind = kinds_[key];
    if (!kind.sorted.empty()) {
      const double error = log_error(kind.median(), duration_s);
      const auto count = static_cast<std::size_t>(std::bit_width(kind.sorted.size()));
      errors_[key[0]][std::min(count, kCountClasses) - 1].add(error, kTypeMemory);
      kind.error.add(error, kKindMemory);
    }
    kind.add(duration_s);
  }
}

void DurationModel::set_running(const std::vector<std::pair<JobColumns, double>>& running) {
  for (auto& [key, kind] : kinds_) kind.running.clear();
  for (const auto& [job, elapsed_s] : running) {
    for (const std::string& key : kinds_of(job)) {
      const auto found = kinds_.find(key);
      if (found != kinds_.end()) found->second.running.push_back(elapsed_s);
    }
  }
  for (auto& [key, kind] : kinds_) std::sort(kind.running.begin(), kind.running.end());
}

DurationDistribution DurationModel::of(const JobColumns& job, double elapsed_s) const {
  return distribution(job, elapsed_s, true);
}

DurationDistribution DurationModel::distribution(const JobColumns& job, double elapsed_s,
                                                 bool sees_running) const {
  const bool trusts_mixture = mixture_error_.sum < kNeededGain * size_error_.sum;
  if (trusts_mixture) return mixture(weights(job), job, elapsed_s, sees_running);
  if (const Kind* const size = size_kind(job)) {
    return mixture({{size, expected_error('s', *size), 1}}, job, elapsed_s, sees_running);
  }
  const double limit_s = limit_of(job);
  std::vector<std::pair<double, double>> weighted;
  add_prior(limit_s > 0 ? std::min(kFirstGuess_s, limit_s / 2) : kFirstGuess_s, kUnknownError, 1,
            weighted);
  return {std::move(weighted), elapsed_s, limit_s};
}

DurationModel::Medians DurationModel::medians(const JobColumns& job) const {
  const Kind* const size = size_kind(job);
  return {.model_s = distribution(job, 0, false).quantile(0.5),
          .by_size_s = size != nullptr ? size->median() : kFirstGuess_s};
}

}  // namespace orrery::sim
