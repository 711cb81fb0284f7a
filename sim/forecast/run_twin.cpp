#include "sim/forecast/run_twin.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/units.hpp"
#include "policies/run/choose.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/scenario/failure_stream.hpp"

namespace orrery::sim {
namespace {

constexpr std::array<std::size_t, 2> kSteps{1, 10};  // counts from the next step on
constexpr std::uint32_t kLostNodes = 4;              // nodes whose loss is simulated
constexpr Nanos kHorizons = 4;     // failures are drawn for so many times the rest of the run
constexpr std::size_t kMostFaults = 1000;  // drawn for one future
constexpr std::size_t kAlike = 4;  // independent errors in the sum of many steps
constexpr std::size_t kRatiosOfFuture = 5, kRatiosOfLoss = 6;
constexpr std::size_t kStretch = 15;  // longest stretch of the history in one draw
constexpr double kSameLevel = 0.1;
constexpr double kNoEnd_s = 1e12;  // goal of a policy under which the run does not end
constexpr JobId kRun{0};

FuturesOrder choices_of(const Scenario& scenario, const std::vector<std::string>& alternatives) {
  FuturesOrder order;
  order.set_count(1);
  order.add_choices();
  for (const std::string& name : alternatives) {
    Scenario chosen = scenario;
    choose_policy(chosen, name);
    *order.add_choices()->mutable_policies() = chosen.policies();
  }
  return order;
}

double loss_rate_of(const Scenario& scenario, const Cluster& cluster) {
  if (!scenario.has_failures()) return 0;
  return scenario.failures().scale() *
         interruption_rate(failure_kinds(scenario.failures()), cluster.nodes(),
                           cluster.shape().gpus_per_node);
}

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns a draw of the Gamma distribution with a whole shape and the scale 1.
double draw_gamma(std::uint64_t shape, Rng& rng) {
  double sum = 0;
  for (std::uint64_t i = 0; i < shape; ++i) sum -= std::log(1 - rng.uniform());
  return sum;
}

/// Returns losses of single ranks, for a scenario without rates.
Failures losses_every(double mtbf_s) {
  Failures failures;
  failures.set_scale(1);
  failures.set_repair(kNanosPerSecond);
  FailureKind& kind = *failures.add_kinds();
  kind.set_cause("loss of a rank");
  kind.set_part("job");
  kind.set_mtbf(mtbf_s);
  kind.set_shape(1);
  kind.set_kill(true);
  return failures;
}

Nanos later(Nanos at, double seconds) { return at + to_nanos(std::min(seconds, 9e8)); }

}  // namespace

std::vector<std::string> policies_of_twin(const Scenario& scenario,
                                          const std::vector<std::string>& alternatives) {
  std::vector<std::string> own;
  for (const PolicySpec& policy : scenario.policies()) own.push_back(policy.name());
  std::vector<std::string> out{own.empty() ? "static" : fmt::format("{}", fmt::join(own, "+"))};
  out.insert(out.end(), alternatives.begin(), alternatives.end());
  return out;
}

RunTwin::RunTwin(const Scenario& scenario, const Cluster& cluster, Simulate simulate,
                 Options options)
    : scenario_(scenario),
      cluster_(cluster),
      simulate_(std::move(simulate)),
      options_(std::move(options)),
      loss_rate_(loss_rate_of(scenario, cluster)),
      order_(choices_of(scenario, options_.policies)),
      rule_(policies_of_twin(scenario, options_.policies)) {}

// ---- scores ---------------------------------------------------------------------------------

void RunTwin::resolve_instant(ForecastScore& score, std::string_view kind,
                              const std::string& name, JobId id, Nanos actual) {
  for (const InstantForecast& each : score.resolve_job(id, actual)) {
    if (options_.at_known) options_.at_known({name, kind, each, actual});
  }
}

void RunTwin::record_commit(const StepCommit& commit) {
  resolve_instant(steps_, "step", std::to_string(commit.step),
                  {static_cast<std::uint32_t>(commit.step)}, commit.at);
  if (const auto known = open_.extract(commit.step)) {
    for (const OpenStep& each : known.mapped()) {
      const double measured = to_seconds(commit.at - each.begun);
      errors_.push_back(std::abs(to_seconds(commit.at - each.median)) / measured);
    }
  }
  const auto simulated = simulated_s_.find(commit.step);
  if (simulated == simulated_s_.end() || !commit.calm) return;
  ratios_.push_back(to_seconds(commit.length) / simulated->second);
  if (ratios_.size() > kHistory) ratios_.pop_front();
}

void RunTwin::resolve_forecasts(const RunCourse& course) {
  for (; commits_ < course.commits.size(); ++commits_) record_commit(course.commits[commits_]);
  losses_ = course.losses;
  if (course.ended) resolve_instant(ends_, "end", scenario_.name(), kRun, *course.ended);
}

// ---- futures --------------------------------------------------------------------------------

RunRequest RunTwin::request_at(const std::string& log, const RunCourse& course,
                               const std::vector<Fault>& faults) const {
  RunRequest request;
  Scenario& scenario = *request.mutable_scenario() = scenario_;
  scenario.mutable_noise()->set_compute_cv(0);  // the measured ratios have the noise
  scenario.clear_failures();
  scenario.clear_faults();
  for (const auto& [rank, factor] : course.slow) {
    Fault& fault = *scenario.add_faults();
    fault.set_at_time(std::max<Nanos>(course.commits.back().at, 1));
    fault.set_rank(rank);
    fault.set_slow(factor);
  }
  scenario.mutable_faults()->Add(faults.begin(), faults.end());
  request.mutable_from()->set_path(log);
  request.mutable_from()->set_until(course.now);
  *request.mutable_futures() = order_;
  request.mutable_futures()->set_at(course.now);
  return request;
}

RunTwin::Futures RunTwin::simulate_run(const std::string& log, const RunCourse& course,
                                       const std::vector<Fault>& faults) const {
  const FuturesReport all = simulate_(request_at(log, course, faults));
  const FutureEnd& own = all.futures(0);
  if (own.has_failure() && faults.empty()) {
    throw Error(static_cast<ErrorKind>(own.failure().kind()), own.failure().message());
  }
  Futures out;
  for (const FutureEnd& end : all.futures()) {
    Future& future = out.emplace_back();
    if (!end.has_report()) continue;
    if (end.has_end_s()) future.end = to_nanos(end.end_s());
    const auto& steps = end.report().step_times_s();
    const auto known = static_cast<std::ptrdiff_t>(course.commits.size());
    if (steps.size() > known) {
      future.steps_s.assign(steps.begin() + known, steps.end());
    } else {  // a report has the first 10,000 steps
      future.steps_s.assign(std::min<std::size_t>(end.steps_ahead(), kSteps.back()),
                            end.report().step_time_s());
    }
  }
  return out;
}

std::vector<Fault> RunTwin::draw_failures(const RunCourse& course, Nanos horizon, Rng& rng) const {
  Scenario drawn = scenario_;
  drawn.clear_faults();
  drawn.mutable_run()->set_seed(rng.next());
  const double elapsed_s = to_seconds(course.now);
  if (loss_rate_ > 0) {
    drawn.mutable_failures()->clear_trace();
    drawn.mutable_failures()->set_scale(scenario_.failures().scale() *
                                        draw_gamma(1 + course.losses, rng) /
                                        (1 + loss_rate_ * elapsed_s));
  } else if (course.losses > 0) {
    *drawn.mutable_failures() = losses_every(elapsed_s / draw_gamma(course.losses, rng));
  } else {
    return {};
  }
  FailureStream stream(drawn, cluster_);
  std::vector<Fault> faults;
  while (stream.next_time() < horizon && faults.size() < kMostFaults) {
    for (Fault& fault : stream.pop_failure()) {
      fault.set_at_time(fault.at_time() + course.now);
      faults.push_back(std::move(fault));
    }
  }
  return faults;
}

std::vector<RunTwin::Futures> RunTwin::draw_futures(const std::string& log,
                                                    const RunCourse& course, const Futures& calm,
                                                    Rng& rng) const {
  const Nanos rest = calm[0].end == kNever ? 0 : calm[0].end - course.now;
  std::vector<Futures> drawn;
  for (std::uint32_t sample = 0; sample < options_.samples; ++sample) {
    const std::vector<Fault> faults = draw_failures(course, kHorizons * rest, rng);
    drawn.push_back(faults.empty() ? calm : simulate_run(log, course, faults));
  }
  return drawn;
}

/// Returns a draw of measured over simulated time of this many steps together. The present level
/// (median of the newest ratios) lasts for as many steps again as it has lasted, in the median, as
/// for a process whose scale is not known; then follows a stretch of the history. Deviations of
/// neighbouring steps are alike: at most kAlike of them average out.
double RunTwin::draw_ratio(std::size_t steps, Rng& rng) const {
  if (ratios_.empty() || steps == 0) return 1;
  const std::size_t newest = std::min(kNewestRatios, ratios_.size());
  const double level = middle_of({ratios_.end() - static_cast<std::ptrdiff_t>(newest),
                                  ratios_.end()});
  const auto changed = std::find_if(ratios_.rbegin(), ratios_.rend(), [level](double ratio) {
    return std::abs(ratio - level) > kSameLevel * level;
  });
  const auto age =
      static_cast<std::size_t>(std::max<std::ptrdiff_t>(changed - ratios_.rbegin(), 1));
  const double lasts = static_cast<double>(age) * (1 / (1 - rng.uniform()) - 1);
  const double share = std::min(1.0, lasts / static_cast<double>(steps));
  const std::size_t draws = std::min(steps, kAlike);
  double present = 0, later = 0;
  for (std::size_t i = 0; i < draws; ++i) present += ratios_[ratios_.size() - 1 - rng.below(age)];
  const std::size_t length = std::min({steps, kStretch, ratios_.size()});
  const std::size_t begin = rng.below(ratios_.size() - length + 1);
  for (std::size_t i = 0; i < length; ++i) later += ratios_[begin + i];
  return share * present / static_cast<double>(draws) +
         (1 - share) * later / static_cast<double>(length);
}

// ---- forecasts ------------------------------------------------------------------------------

void RunTwin::forecast_steps(const RunCourse& course, const std::vector<Futures>& drawn, Rng& rng,
                             RunForecast& made) {
  for (const std::size_t count : kSteps) {
    std::vector<std::vector<Nanos>> samples(drawn[0].size());  // one list for each policy
    for (const Futures& futures : drawn) {
      if (futures[0].steps_s.size() < count) continue;
      for (std::size_t draw = 0; draw < kRatiosOfFuture; ++draw) {
        const double ratio = draw_ratio(count, rng);
        for (std::size_t i = 0; i < futures.size(); ++i) {
          const std::vector<double>& steps_s = futures[i].steps_s;
          if (steps_s.size() < count) continue;
          const auto end = steps_s.begin() + static_cast<std::ptrdiff_t>(count);
          const double sum_s = std::accumulate(steps_s.begin(), end, 0.0);
          samples[i].push_back(std::max(course.now, later(made.begun, sum_s * ratio)));
        }
      }
    }
    if (samples[0].empty()) return;
    for (std::vector<Nanos>& each : samples) std::sort(each.begin(), each.end());
    const Step step = made.next + count - 1;
    const InstantForecast forecast = steps_.forecast(samples[0], course.now);
    steps_.add({static_cast<std::uint32_t>(step)}, forecast, samples[0]);
    if (count > 1) continue;
    made.commit = forecast;
    for (std::size_t i = 1; i < samples.size(); ++i) {
      if (samples[i].empty()) samples[i] = {kNever};
      made.other_commits.push_back(steps_.forecast(samples[i], course.now));
    }
    open_[step].push_back({.begun = made.begun, .median = forecast.median});
  }
}

void RunTwin::forecast_ends(const RunCourse& course, const std::vector<Futures>& drawn, Rng& rng,
                            RunForecast& made) {
  const std::vector<std::string> names = policies_of_twin(scenario_, options_.policies);
  std::vector<std::vector<Nanos>> ends(names.size());
  for (const Futures& futures : drawn) {
    for (std::size_t draw = 0; draw < kRatiosOfFuture; ++draw) {
      const double ratio = draw_ratio(futures[0].steps_s.size(), rng);
      for (std::size_t i = 0; i < futures.size(); ++i) {
        const Nanos end = futures[i].end;
        ends[i].push_back(end == kNever
                              ? kNever
                              : later(course.now, to_seconds(end - course.now) * ratio));
      }
    }
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    std::sort(ends[i].begin(), ends[i].end());
    made.policies.push_back({.policy = names[i], .end = ends_.forecast(ends[i], course.now)});
  }
  ends_.add(kRun, made.policies[0].end, ends[0]);
}

void RunTwin::forecast_node_loss(const std::string& log, const RunCourse& course,
                                 const Futures& calm, Rng& rng, RunForecast& made) const {
  const std::uint32_t nodes = std::min(cluster_.nodes(), kLostNodes);
  std::vector<std::uint32_t> survived(calm.size(), 0);
  std::vector<std::vector<double>> costs_s(calm.size());
  for (std::uint32_t i = 0; i < nodes; ++i) {
    Fault fault;
    fault.set_at_time(course.now + 1);
    fault.set_node(static_cast<std::uint32_t>(std::uint64_t{i} * cluster_.nodes() / nodes));
    fault.set_down(true);
    fault.set_for_(scenario_.has_failures() ? scenario_.failures().repair() : kNanosPerSecond);
    const Futures lost = simulate_run(log, course, {fault});
    std::vector<double> ratios;
    for (std::size_t draw = 0; draw < kRatiosOfLoss; ++draw) {
      ratios.push_back(draw_ratio(calm[0].steps_s.size(), rng));
    }
    for (std::size_t policy = 0; policy < lost.size(); ++policy) {
      if (lost[policy].end == kNever || calm[policy].end == kNever) continue;
      ++survived[policy];
      const double cost_s = to_seconds(lost[policy].end - calm[policy].end);
      made.policies[policy].node_cost_s += cost_s;
      for (const double ratio : ratios) costs_s[policy].push_back(cost_s * ratio);
    }
  }
  for (std::size_t policy = 0; policy < calm.size(); ++policy) {
    if (survived[policy] > 0) made.policies[policy].node_cost_s /= survived[policy];
    made.policies[policy].survived = static_cast<double>(survived[policy]) / nodes;
    made.policies[policy].node_loss_s = forecast_cost(costs_s[policy]);
  }
}

void RunTwin::compare_policies(const RunForecast& made) {
  std::vector<double> goals;
  for (const RunOutlook& each : made.policies) {
    const Nanos end = each.end.median;
    goals.push_back(end == kNever ? kNoEnd_s : to_seconds(end - made.made));
  }
  const double best = *std::min_element(goals.begin(), goals.end());
  if (goals[0] < kNoEnd_s) regret_s_ += goals[0] - best;
  const std::optional<PolicySwitch> choice = rule_.add_forecast(goals, made.made);
  if (choice && options_.at_choice) options_.at_choice(*choice);
}

void RunTwin::forecast_run(const std::string& log, const RunCourse& course) {
  if (course.ended || course.commits.empty()) return;
  const double begin_s = options_.clock_s ? options_.clock_s() : 0;
  const Futures calm = simulate_run(log, course, {});
  const StepCommit& newest = course.commits.back();
  RunForecast made;
  made.made = course.now;
  made.next = newest.step + 1;
  made.begun = newest.at;
  simulated_s_.clear();
  for (std::size_t i = 0; i < calm[0].steps_s.size(); ++i) {
    simulated_s_[made.next + i] = calm[0].steps_s[i];
  }
  Rng rng = Rng(options_.seed).split_stream(fmt::format("futures at {}", course.now));
  const std::vector<Futures> drawn = draw_futures(log, course, calm, rng);
  forecast_steps(course, drawn, rng, made);
  forecast_ends(course, drawn, rng, made);
  forecast_node_loss(log, course, calm, rng, made);
  compare_policies(made);
  ++forecasts_;
  newest_ = made;
  if (options_.clock_s) times_s_.push_back(options_.clock_s() - begin_s);
  if (options_.at_forecast) options_.at_forecast(made);
}

RunTwinReport RunTwin::report() const {
  RunTwinReport out{.forecasts = forecasts_,
                    .next_steps = errors_.size(),
                    .losses = losses_,
                    .steps = steps_.rows(),
                    .ends = ends_.rows(),
                    .ends_beyond = ends_.beyond(),
                    .newest = newest_,
                    .choices = rule_.switches()};
  if (!errors_.empty()) out.next_step_error = middle_of(errors_);
  if (forecasts_ > 0) out.regret_s = regret_s_ / static_cast<double>(forecasts_);
  return out;
}

}  // namespace orrery::sim
