#include "sim/forecast/duration_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

namespace orrery::sim {
namespace {

constexpr double kFirstGuess_s = 3600;
constexpr double kShrinkage = 5;       // errors of its type that count beside a kind's own
constexpr double kSharpness = 10;      // fall of the weight with the relative error
constexpr double kLeastWeight = 0.05;  // share of the best kind's; lighter kinds are left out
constexpr double kKindMemory = 0.97, kTypeMemory = 0.999, kGuardMemory = 0.998;
constexpr double kNeededGain = 0.98;  // limit of the mixture's error over that of the size
constexpr char kSize = 's';           // type of the kinds by size: the baseline
constexpr char kNumbered = 'o';       // type of the kinds by a name with its digits
constexpr double kSlopePrior = 1;     // sum of squares that a slope of 0 has beforehand
constexpr double kSignificant = 2;    // least slope over its standard error

constexpr double kExponentStep = 0.1;         // smaller changes of an exponent wait
constexpr std::size_t kMostNumbered = 16384;  // kinds of that type with one job, at most
constexpr int kPriorPoints = 9;               // odd: the one in the middle is the median

double log_error(double estimate_s, double duration_s) {
  return std::abs(std::log(std::max(estimate_s, 1.0) / std::max(duration_s, 1.0)));
}

/// Adds unknown durations with the sum of weights 1.
void add_prior(double median_s, double error, WeightedDurations& weighted) {
  for (int i = 0; i < kPriorPoints; ++i) {
    const double u = (i + 0.5) / kPriorPoints;
    weighted.emplace_back(unknown_duration(median_s, error, u), 1.0 / kPriorPoints);
  }
}

/// Adds the durations `known_s`, each with the weight `each`, and the durations `others`, in
/// ascending order, which both must have. Leaves out durations of at most `elapsed_s`.
void add_sorted(const std::vector<double>& known_s, const WeightedDurations& others, double each,
                double elapsed_s, WeightedDurations& weighted) {
  const auto add = [&](double duration_s, double weight) {
    if (duration_s > elapsed_s) weighted.emplace_back(duration_s, weight);
  };
  auto next = others.begin();
  for (const double duration_s : known_s) {
    for (; next != others.end() && next->first <= duration_s; ++next)
      add(next->first, next->second);
    add(duration_s, each);
  }
  for (; next != others.end(); ++next) add(next->first, next->second);
}

/// Sorts durations that are sorted up to each of the places `ends`, from the place before on.
void merge_sorted(std::vector<std::ptrdiff_t> ends, WeightedDurations& weighted) {
  WeightedDurations merged(ends.size() > 1 ? weighted.size() : 0);
  while (ends.size() > 1) {
    const auto from = weighted.begin();
    auto to = merged.begin();
    std::size_t left = 0;
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      const auto begin = from + (i == 0 ? 0 : ends[i - 1]), middle = from + ends[i];
      const auto end = from + ends[std::min(i + 1, ends.size() - 1)];
      to = std::merge(begin, middle, middle, end, to);
      ends[left++] = to - merged.begin();
    }
    ends.resize(left);
    weighted.swap(merged);
  }
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

DurationDistribution::DurationDistribution(WeightedDurations weighted, double elapsed_s,
                                           double limit_s)
    : cumulative_(std::move(weighted)),
      elapsed_s_(elapsed_s),
      limit_s_(std::max(limit_s, limit_s > 0 ? elapsed_s : 0)) {
  std::erase_if(cumulative_, [&](const auto& each) { return each.first <= elapsed_s; });
  if (!std::is_sorted(cumulative_.begin(), cumulative_.end())) {
    std::sort(cumulative_.begin(), cumulative_.end());
  }
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

double DurationModel::Kind::factor_of(double limit) const {
  return exponent > 0 && limit > 0 && limit_s > 0 ? std::pow(limit / limit_s, exponent) : 1;
}

void DurationModel::Kind::add(const Ended& job) {
  if (limit_s == 0) limit_s = job.limit_s;
  const auto share = [this](const Ended& of) { return of.duration_s / factor_of(of.limit_s); };
  if (newest.size() < kWindow) {
    newest.push_back(job);
  } else {
    sorted.erase(std::lower_bound(sorted.begin(), sorted.end(), share(newest[oldest])));
    newest[oldest] = job;
    oldest = (oldest + 1) % kWindow;
  }
  sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), share(job)), share(job));
}

/// The jobs that run are of the newest set_running(), and are told anew before the next forecast.
void DurationModel::Kind::set_exponent(double to) {
  exponent = to;
  sorted.clear();
  for (const Ended& of : newest) sorted.push_back(of.duration_s / factor_of(of.limit_s));
  std::sort(sorted.begin(), sorted.end());
  running.clear();
}

void DurationModel::Slope::add(const Ended& before, const Ended& now) {
  const auto log_ratio = [](double a, double b) {
    return std::log(std::max(a, 1.0) / std::max(b, 1.0));
  };
  const double x = log_ratio(now.limit_s, before.limit_s);
  const double y = log_ratio(now.duration_s, before.duration_s);
  if (x == 0) return;  // says nothing about the slope
  plain = plain * kTypeMemory + std::abs(y);
  sloped = sloped * kTypeMemory + std::abs(y - slope() * x);
  xx = xx * kTypeMemory + x * x;
  xy = xy * kTypeMemory + x * y;
  xxyy = xxyy * kTypeMemory + x * x * y * y;
}

double DurationModel::Slope::slope() const { return std::clamp(xy / (xx + kSlopePrior), 0.0, 1.0); }

double DurationModel::Slope::proven() const {
  const bool is_significant = xy * xy >= kSignificant * kSignificant * xxyy;
  return is_significant && sloped < kNeededGain * plain ? slope() : 0;
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
  if (!name.empty()) {
    kinds.push_back("k" + job.user + "\n" + name);
    kinds.push_back("n" + job.user + "\n" + size + "\n" + name);
  }
  if (name != job.name) kinds.push_back(kNumbered + job.user + "\n" + size + "\n" + job.name);
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
  const auto limit_s = static_cast<double>(job.limit_s);
  for (const std::string& key : kinds_of(job)) {
    const Kind* const kind = find(key);
    if (kind == nullptr) continue;
    const double error = std::max(expected_error(key[0], *kind), 0.01);
    found.push_back({kind, error, 1, kind->factor_of(limit_s)});
    least = std::min(least, error);
  }
  for (Weighted& each : found) each.weight = std::exp(-kSharpness * (each.error / least - 1));
  std::erase_if(found, [](const Weighted& each) { return each.weight < kLeastWeight; });
  return found;
}

DurationModel::JobKinds DurationModel::kinds_for(const JobColumns& job) const {
  JobKinds found{.kinds = {}, .limit_s = limit_of(job)};
  const bool trusts_mixture = mixture_error_.sum < kNeededGain * size_error_.sum;
  const Kind* const size = size_kind(job);
  if (trusts_mixture) {
    found.kinds = weights(job);
  } else if (size != nullptr) {
    found.kinds = {{size, expected_error(kSize, *size), 1}};
  }
  found.guess_s = found.limit_s > 0 ? std::min(kFirstGuess_s, found.limit_s / 2) : kFirstGuess_s;
  return found;
}

DurationDistribution DurationModel::mixture(const JobKinds& job, double elapsed_s,
                                            bool sees_running) const {
  WeightedDurations weighted, own;
  std::vector<std::ptrdiff_t> ends;
  if (job.kinds.empty()) add_prior(job.guess_s, kUnknownError, weighted);
  for (const auto& [kind, error, weight, factor] : job.kinds) {
    own.clear();
    add_prior(kind->median(), error, own);
    const std::size_t begin = weighted.size();
    const double elapsed = elapsed_s / factor;
    auto count = static_cast<double>(kind->sorted.size() + 1);
    if (sees_running && !kind->running.empty() && !kind->is_full()) {
      WeightedDurations running;
      for (const double each_s : kind->running) running.emplace_back(each_s, 1);
      for (const double duration_s : kind->sorted) own.emplace_back(duration_s, 1);
      spread_running(running, own);
      count += static_cast<double>(kind->running.size());
      for (auto& each : own) each.second = weight * each.second / count;
      add_sorted({}, own, 0, elapsed, weighted);
    } else {
      for (auto& each : own) each.second = weight * each.second / count;
      add_sorted(kind->sorted, own, weight / count, elapsed, weighted);
    }
    for (std::size_t i = begin; i < weighted.size(); ++i) weighted[i].first *= factor;
    ends.push_back(static_cast<std::ptrdiff_t>(weighted.size()));
  }
  merge_sorted(std::move(ends), weighted);
  return {std::move(weighted), elapsed_s, job.limit_s};
}

/// Finds the first duration up to which more than half of the weights are, without a merged list.
double DurationModel::median_of(const JobKinds& job) const {
  struct Part {
    const std::vector<double>& known;
    std::array<double, kPriorPoints> unknown = {};
    double factor, each, each_unknown;  ///< factor of the durations, weights

    double weight_up_to(double duration_s) const {
      const auto count = [&](const auto& durations) {
        const auto end = std::partition_point(durations.begin(), durations.end(), [&](double own) {
          return own * factor <= duration_s;
        });
        return static_cast<double>(end - durations.begin());
      };
      return each * count(known) + each_unknown * count(unknown);
    }
  };
  if (job.kinds.empty()) return mixture(job, 0, false).quantile(0.5);
  std::vector<Part> parts;
  double half = 0;
  for (const auto& [kind, error, weight, factor] : job.kinds) {
    const double each = weight / static_cast<double>(kind->sorted.size() + 1);
    parts.push_back({kind->sorted, {}, factor, each, each / kPriorPoints});
    for (int i = 0; i < kPriorPoints; ++i) {
      parts.back().unknown[static_cast<std::size_t>(i)] =
          unknown_duration(kind->median(), error, (i + 0.5) / kPriorPoints);
    }
    half += weight / 2;
  }
  double median = std::numeric_limits<double>::infinity();
  const auto is_below = [&](double duration_s) {
    double sum = 0;
    for (const Part& part : parts) sum += part.weight_up_to(duration_s);
    return sum <= half;
  };
  const auto search = [&](const auto& durations, double factor) {
    const auto at = std::partition_point(durations.begin(), durations.end(), [&](double own) {
      return own * factor < median && is_below(own * factor);
    });
    if (at != durations.end()) median = std::min(median, *at * factor);
  };
  for (const Part& part : parts) {
    search(part.known, part.factor);
    search(part.unknown, part.factor);
  }
  return job.limit_s > 0 ? std::min(median, job.limit_s) : median;
}

void DurationModel::record_end(const JobColumns& job, double duration_s) {
  if (const Kind* const size = size_kind(job)) {
    const JobKinds all{.kinds = weights(job), .limit_s = limit_of(job)};
    mixture_error_.add(log_error(median_of(all), duration_s), kGuardMemory);
    size_error_.add(log_error(size->median(), duration_s), kGuardMemory);
  }
  if (job.limit_s > 0) {
    ++limited_;
    if (duration_s > static_cast<double>(job.limit_s) + 60) ++beyond_limit_;
  }
  const Ended ended{duration_s, static_cast<double>(job.limit_s)};
  for (const std::string& key : kinds_of(job)) {
    const auto [found, is_new] = kinds_.try_emplace(key);
    Kind& kind = found->second;
    if (is_new) {
      kind.exponent = slopes_[key[0]].exponent;
    } else {
      const double error = log_error(kind.median() * kind.factor_of(ended.limit_s), duration_s);
      const auto count = static_cast<std::size_t>(std::bit_width(kind.sorted.size()));
      errors_[key[0]][std::min(count, kCountClasses) - 1].add(error, kTypeMemory);
      kind.error.add(error, kKindMemory);
      learn_slope(key[0], kind.last(), ended);
    }
    kind.add(ended);
    if (key[0] == kNumbered && kind.sorted.size() == 1) numbered_.push_back(key);
  }
  if (numbered_.size() > kMostNumbered) forget_oldest_name();
}

void DurationModel::learn_slope(char type, const Ended& before, const Ended& now) {
  if (type == kSize || before.limit_s <= 0 || now.limit_s <= 0) return;
  Slope& slope = slopes_[type];
  slope.add(before, now);
  const double found = slope.proven();
  if (std::abs(found - slope.exponent) < kExponentStep) return;
  slope.exponent = found;
  const std::string first(1, type), end(1, static_cast<char>(type + 1));
  for (auto at = kinds_.lower_bound(first); at != kinds_.lower_bound(end); ++at) {
    at->second.set_exponent(found);
  }
}

/// Most names with digits never come again.
void DurationModel::forget_oldest_name() {
  const auto oldest = kinds_.find(numbered_.front());
  if (oldest->second.sorted.size() == 1) kinds_.erase(oldest);
  numbered_.pop_front();
}

void DurationModel::set_running(const std::vector<std::pair<JobColumns, double>>& running) {
  for (auto& [key, kind] : kinds_) kind.running.clear();
  for (const auto& [job, elapsed_s] : running) {
    for (const std::string& key : kinds_of(job)) {
      const auto found = kinds_.find(key);
      if (found == kinds_.end()) continue;
      Kind& kind = found->second;
      kind.running.push_back(elapsed_s / kind.factor_of(static_cast<double>(job.limit_s)));
    }
  }
  for (auto& [key, kind] : kinds_) std::sort(kind.running.begin(), kind.running.end());
}

DurationDistribution DurationModel::of(const JobColumns& job, double elapsed_s) const {
  return mixture(kinds_for(job), elapsed_s, true);
}

DurationModel::Medians DurationModel::medians(const JobColumns& job) const {
  const Kind* const size = size_kind(job);
  return {.model_s = median_of(kinds_for(job)),
          .by_size_s = size != nullptr ? size->median() : kFirstGuess_s};
}

}  // namespace orrery::sim
