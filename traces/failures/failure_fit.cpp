#include "traces/failures/failure_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr double kDay_s = 86400;
constexpr int kSpans = 2000;
/// Weight of a cause that the fit has not seen, in interruptions.
constexpr double kUnseen = 0.5;

/// Rates of a count in a time, with the prior of Jeffreys.
FitInterval rate_interval(std::uint64_t count, double time) {
  const double shape = static_cast<double>(count) + 0.5;
  const auto at = [&](double share) { return gamma_quantile(shape, share) / time; };
  return {at(0.025), at(0.1), at(0.5), at(0.9), at(0.975)};
}

CauseFit& cause_of(std::vector<CauseFit>& causes, const Incident& incident) {
  const auto found = std::find_if(causes.begin(), causes.end(), [&](const CauseFit& each) {
    return is_same_cause(each.like, incident);
  });
  if (found != causes.end()) return *found;
  return causes.emplace_back(CauseFit{.like = incident});
}

/// Failures of each node.
std::vector<double> failures_by_node(const IncidentLog& log, double begin_s, double end_s,
                                     std::uint32_t nodes, std::uint32_t gpus_per_node) {
  std::vector<double> counts(nodes, 0);
  for (const Incident& each : log.incidents) {
    const std::optional<std::uint32_t> node = node_of(each, gpus_per_node);
    if (each.at_s < begin_s || each.at_s >= end_s || !node) continue;
    if (*node < nodes) ++counts[*node];
  }
  return counts;
}

/// Two groups of nodes with Poisson counts.
struct TwoRates {
  double share, low, high, likelihood;
};

double poisson_log(double count, double mean) {
  return count * std::log(std::max(mean, 1e-12)) - mean - std::lgamma(count + 1);
}

/// Probability that a node with this count is of the higher rate.
double probability_high(const TwoRates& two, double count) {
  const double a = std::log1p(-two.share) + poisson_log(count, two.low);
  const double b = std::log(two.share) + poisson_log(count, two.high);
  return 1 / (1 + std::exp(std::clamp(a - b, -700.0, 700.0)));
}

/// Expectation and maximisation; nodes with one count are one entry.
TwoRates fit_two_rates(const std::map<double, double>& nodes_by_count, double nodes, double mean) {
  TwoRates two{.share = 0.05,
               .low = 0.8 * mean,
               .high = std::max(4 * mean, 0.7 * nodes_by_count.rbegin()->first),
               .likelihood = 0};
  for (int round = 0; round < 500; ++round) {
    double high = 0, high_failures = 0, failures = 0, likelihood = 0;
    for (const auto& [count, number] : nodes_by_count) {
      const double p = probability_high(two, count);
      high += number * p;
      high_failures += number * p * count;
      failures += number * count;
      const double a = std::log1p(-two.share) + poisson_log(count, two.low);
      likelihood += number * (a - std::log(std::max(1 - p, 1e-300)));
    }
    const bool done = round > 0 && std::abs(likelihood - two.likelihood) < 1e-8;
    two.likelihood = likelihood;
    if (done) break;
    two.share = std::clamp(high / nodes, 0.5 / nodes, 0.5);
    two.high = high_failures / std::max(high, 1e-9);
    two.low = (failures - high_failures) / std::max(nodes - high, 1e-9);
  }
  return two;
}

/// Finds unreliable nodes if two rates explain the counts so much better than one that BIC, with
/// two additional parameters, prefers them.
LemonFit find_lemons(const std::vector<double>& counts) {
  LemonFit fit;
  const auto nodes = static_cast<double>(counts.size());
  double failures = 0;
  std::map<double, double> nodes_by_count;
  for (const double each : counts) {
    failures += each;
    ++nodes_by_count[each];
  }
  if (counts.size() < 4 || failures < 4) return fit;
  const double mean = failures / nodes;
  double one = 0;
  for (const auto& [count, number] : nodes_by_count) one += number * poisson_log(count, mean);
  const TwoRates two = fit_two_rates(nodes_by_count, nodes, mean);
  if (two.likelihood - one < std::log(nodes) || two.high < 1.5 * two.low) return fit;
  fit.share = two.share;
  fit.times = std::min(two.high / std::max(two.low, 0.5 / nodes), 1e6);
  for (std::uint32_t node = 0; node < counts.size(); ++node) {
    const double p = probability_high(two, counts[node]);
    if (p < 0.9) continue;
    fit.nodes.push_back(node);
    fit.expected.push_back((p * two.high + (1 - p) * two.low) / failures);
  }
  return fit;
}

/// Probabilities of the causes, the last for one that was not seen.
std::vector<double> draw_causes(const std::vector<const CauseFit*>& causes, Rng& rng) {
  std::vector<double> weights;
  for (const CauseFit* const each : causes) {
    weights.push_back(draw_gamma(static_cast<double>(each->count), rng));
  }
  weights.push_back(draw_gamma(kUnseen, rng));
  return weights;
}

std::size_t draw_index(const std::vector<double>& weights, double sum, Rng& rng) {
  double at = rng.uniform() * sum;
  std::size_t which = 0;
  while (which + 1 < weights.size() && at >= weights[which]) at -= weights[which++];
  return which;
}

const RecoveryModel& drawn_from(const RecoveryFit& fit, Rng& rng) {
  return fit.posterior[rng.below(fit.posterior.size())];
}

}  // namespace

std::optional<std::uint32_t> node_of(const Incident& incident, std::uint32_t gpus_per_node) {
  if (!incident.index) return std::nullopt;
  if (incident.part == FailingPart::node) return incident.index;
  if (incident.part == FailingPart::gpu) return *incident.index / gpus_per_node;
  return std::nullopt;
}

bool is_same_cause(const Incident& a, const Incident& b) {
  return std::tie(a.cause, a.part, a.stops) == std::tie(b.cause, b.part, b.stops) &&
         a.rate.has_value() == b.rate.has_value();
}

FitInterval interval_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const auto at = [&values](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double next = values[std::min(below + 1, values.size() - 1)];
    return values[below] + (place - static_cast<double>(below)) * (next - values[below]);
  };
  return {at(0.025), at(0.1), at(0.5), at(0.9), at(0.975)};
}

FailureFit learn_failures(const IncidentLog& log, double begin_s, double end_s, std::uint32_t nodes,
                          std::uint32_t gpus_per_node) {
  FailureFit fit{.begin_s = begin_s, .end_s = end_s};
  double down_until = begin_s, down = 0;
  for (const Incident& each : log.incidents) {
    if (each.at_s >= end_s) break;
    const double back = each.at_s + (each.rate ? 0 : each.down_s);
    const bool inside = each.at_s >= begin_s;
    if (inside) {
      CauseFit& cause = cause_of(fit.causes, each);
      ++cause.count;
      cause.highest_index = std::max(cause.highest_index, each.index.value_or(0));
      if (!each.rate) cause.down_s.push_back(each.down_s);
      if (each.detection_s) cause.detection_s.push_back(*each.detection_s);
      if (each.repair_s) cause.repair_s.push_back(*each.repair_s);
      if (!each.rate && each.at_s >= down_until) ++fit.interruptions;
    }
    const double from = std::max(each.at_s, down_until), until = std::min(back, end_s);
    if (until > from) down += until - from;
    down_until = std::max(down_until, back);
  }
  fit.up_s = end_s - begin_s - down;
  for (CauseFit& cause : fit.causes) {
    cause.per_day = rate_interval(cause.count, (end_s - begin_s) / kDay_s);
  }
  std::sort(fit.causes.begin(), fit.causes.end(), [](const CauseFit& a, const CauseFit& b) {
    return std::tuple(b.count, std::string_view(a.like.cause), name_of(a.like.part)) <
           std::tuple(a.count, std::string_view(b.like.cause), name_of(b.like.part));
  });
  if (nodes > 0) {
    fit.lemons = find_lemons(failures_by_node(log, begin_s, end_s, nodes, gpus_per_node));
  }
  return fit;
}

FailureForecast forecast_failures(const FailureFit& fit, double length_s, Rng rng) {
  ensure(fit.interruptions > 0, "a forecast follows from interruptions");
  std::vector<const CauseFit*> causes;
  std::vector<RecoveryFit> recoveries;
  std::vector<double> all_down;
  for (const CauseFit& each : fit.causes) {
    if (each.down_s.empty()) continue;
    causes.push_back(&each);
    const std::string name = fmt::format("{} {}", each.like.cause, name_of(each.like.part));
    recoveries.push_back(learn_recovery(each.down_s, rng.split_stream(name)));
    all_down.insert(all_down.end(), each.down_s.begin(), each.down_s.end());
  }
  recoveries.push_back(learn_recovery(all_down, rng.split_stream("any cause")));
  std::vector<double> goodputs, counts;
  for (int span = 0; span < kSpans; ++span) {
    const double rate =
        draw_gamma(static_cast<double>(fit.interruptions) + 0.5, rng) / std::max(fit.up_s, 1.0);
    const std::vector<double> weights = draw_causes(causes, rng);
    double sum = 0;
    for (const double each : weights) sum += each;
    std::vector<const RecoveryModel*> models;
    for (const RecoveryFit& each : recoveries) models.push_back(&drawn_from(each, rng));
    double at = 0, down = 0, count = 0;
    for (;; ++count) {
      at -= std::log1p(-rng.uniform()) / rate;
      if (at >= length_s) break;
      const double lasts = models[draw_index(weights, sum, rng)]->draw_time(rng);
      down += std::min(lasts, length_s - at);
      at += lasts;
    }
    goodputs.push_back(1 - down / length_s);
    counts.push_back(count);
  }
  return {.goodput = interval_of(goodputs), .interruptions = interval_of(counts)};
}

}  // namespace orrery
