#include "sim/planning/outcomes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/random.hpp"
#include "policies/checkpointing/interval.hpp"
#include "sim/planning/placed_steps.hpp"
#include "traces/scenario/failure_model.hpp"

namespace orrery::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// Interval of checkpoints of a run without failures.
constexpr double kHour_s = 3600;

/// Returns the quantile of the standard normal distribution, by bisection.
double normal_quantile(double share) {
  double low = -8, high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

double end_of(const RunCourse& course) {
  return course.finished ? to_seconds(course.elapsed) : kInfinite;
}

/// Returns the time in which `nodes` nodes write a checkpoint without other traffic.
Nanos write_time(const Scenario& scenario, std::uint32_t nodes) {
  const Checkpoints& saved = scenario.checkpoints();
  if (!saved.has_bytes() || !saved.storage().empty()) return saved.write();
  const SharedStorage& storage = scenario.cluster().storage();
  double rate = storage.bandwidth();
  if (storage.has_node_bandwidth()) rate = std::min(rate, nodes * storage.node_bandwidth());
  return to_nanos(saved.bytes() / rate);
}

LongRun slowed(LongRun run, double factor) {
  run.step = std::max<Nanos>(1, to_nanos(to_seconds(run.step) * factor));
  return run;
}

void add_shares(const RunCourse& course, Outcome& outcome) {
  const auto share = [&](Nanos part) {
    return static_cast<double>(part) / static_cast<double>(std::max<Nanos>(1, course.elapsed));
  };
  outcome.shares.checkpoints += share(course.checkpoints);
  outcome.shares.lost_work += share(course.lost_work);
  outcome.shares.detection += share(course.detection);
  outcome.shares.recovery += share(course.recovery);
  outcome.shares.waiting += share(course.waiting);
  outcome.shares.displaced += share(course.displaced);
  outcome.failures += static_cast<double>(course.failures);
}

/// Returns the most replicas that have ranks on one node.
std::uint32_t replicas_of_node(const LayoutChoice& choice, const Cluster& cluster) {
  const std::uint32_t of_stage = std::max(1u, choice.tensor * choice.context);
  return std::max(1u, cluster.shape().gpus_per_node / of_stage);
}

void divide(double count, Outcome& outcome) {
  for (double* each : {&outcome.shares.checkpoints, &outcome.shares.lost_work,
                       &outcome.shares.detection, &outcome.shares.recovery, &outcome.shares.waiting,
                       &outcome.shares.displaced, &outcome.failures}) {
    *each /= std::max(1.0, count);
  }
}

}  // namespace

Weather::Weather(const PlanBasis& basis, std::uint32_t seeds) {
  failures_.reserve(seeds);
  for (std::uint32_t i = 0; i < seeds; ++i) {
    failures_.emplace_back(basis.scenario, basis.cluster, i + 1);
    errors_.push_back(normal_quantile((i + 0.5) / seeds));
  }
  Rng rng = Rng(1).split_stream("errors of the step price");
  for (std::size_t i = errors_.size(); i > 1; --i) {
    std::swap(errors_[i - 1], errors_[rng.below(i)]);
  }
}

double step_factor(const estimates::Interval& interval, double step_s, double normal) {
  struct Knot {
    double normal, log;
  };
  const auto log = [&](double seconds) { return std::log(seconds / step_s); };
  const std::array<Knot, 5> knots{{{-1.959964, log(interval.p2_5_s)},
                                   {-1.281552, log(interval.p10_s)},
                                   {0, 0},
                                   {1.281552, log(interval.p90_s)},
                                   {1.959964, log(interval.p97_5_s)}}};
  std::size_t right = 1;
  while (right + 1 < knots.size() && knots[right].normal < normal) ++right;
  const Knot &a = knots[right - 1], &b = knots[right];
  return std::exp(a.log + (b.log - a.log) * (normal - a.normal) / (b.normal - a.normal));
}

LongRun long_run_of(const PlanBasis& basis, const Candidate& candidate,
                    std::optional<std::uint64_t> every, const Slowdown* slowdown) {
  const Scenario& scenario = basis.scenario;
  const Checkpoints& saved = scenario.checkpoints();
  const Survival& survival = scenario.survival();
  const double batch_tokens = double{1} * candidate.global_batch * scenario.job().sequence_length();
  LongRun run{.steps = static_cast<std::uint64_t>(std::ceil(basis.tokens / batch_tokens)),
              .step = std::max<Nanos>(1, to_nanos(candidate.priced.estimate.step_s)),
              .stall = saved.stall(),
              .write = write_time(scenario, candidate.job_nodes),
              .detection = survival.detection(),
              .restart = survival.restart(),
              .regroup = survival.regroup(),
              .nodes = candidate.job_nodes,
              .cluster_nodes = basis.cluster.nodes(),
              .slowdown = slowdown != nullptr ? *slowdown
                                              : slowdown_of(job_of(basis, candidate), basis.cluster,
                                                            candidate.job_nodes),
              .recovery = candidate.policies.recovery,
              .replacement = survival.replacement(),
              .replicas = std::max(1u, candidate.priced.choice.data),
              .replicas_of_node = replicas_of_node(candidate.priced.choice, basis.cluster)};
  const double rate =
      scenario.failures().scale() * interruption_rate(failure_kinds(scenario.failures()), run.nodes,
                                                      basis.cluster.shape().gpus_per_node);
  const double step = to_seconds(run.step);
  const double best =
      rate > 0 ? candidate.policies.interval * daly_interval(to_seconds(run.stall), 1 / rate)
               : std::max(kHour_s, step);
  const double least = std::ceil(to_seconds(run.stall + run.write) / step);
  const double steps = std::clamp(std::round(best / step), std::max(1.0, least), 1e12);
  run.every = every.value_or(static_cast<std::uint64_t>(steps));
  return run;
}

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {kInfinite, kInfinite, kInfinite};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double part = place - static_cast<double>(below);
    if (part == 0 || values[below] == values[above]) return values[below];
    return values[below] + part * (values[above] - values[below]);
  };
  return {at(0.1), at(0.5), at(0.9)};
}

Quantiles failures_only(const LongRun& run, Weather& weather, std::size_t seeds) {
  std::vector<double> ends;
  for (std::size_t i = 0; i < std::min(seeds, weather.seeds()); ++i) {
    ends.push_back(end_of(play_run(run, weather.failures(i))));
  }
  return quantiles_of(std::move(ends));
}

Outcome play_alone(const LongRun& run, Weather& weather, std::size_t seeds) {
  Outcome outcome;
  double finished = 0;
  const std::size_t count = std::min(seeds, weather.seeds());
  for (std::size_t i = 0; i < count; ++i) {
    const RunCourse course = play_run(run, weather.failures(i));
    outcome.alone_ends_s.push_back(end_of(course));
    if (!course.finished) continue;
    finished += 1;
    add_shares(course, outcome);
  }
  divide(finished, outcome);
  outcome.unfinished = 1 - finished / static_cast<double>(std::max<std::size_t>(1, count));
  outcome.failures_only_s = quantiles_of(outcome.alone_ends_s);
  outcome.goodput =
      static_cast<double>(run.steps) * to_seconds(run.step) / outcome.failures_only_s.p50;
  return outcome;
}

Outcome play_seeds(const LongRun& run, const estimates::Interval& interval, Weather& weather) {
  Outcome outcome = play_alone(run, weather, weather.seeds());
  const double step = to_seconds(run.step);
  for (std::size_t i = 0; i < weather.seeds(); ++i) {
    const LongRun other = slowed(run, step_factor(interval, step, weather.error(i)));
    outcome.ends_s.push_back(end_of(play_run(other, weather.failures(i))));
  }
  outcome.finish_s = quantiles_of(outcome.ends_s);
  return outcome;
}

}  // namespace orrery::sim
