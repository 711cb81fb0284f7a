#include "sim/forecast/twin.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "traces/files/csv.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos kWeek = 7 * 24 * 3600 * kNanosPerSecond;

std::vector<PolicyOutlook> no_outlooks(const Twin::Options& options) {
  std::vector<PolicyOutlook> outlooks{{.policy = options.active.policy(), .goals = {}}};
  for (const JobReplay& each : options.alternatives) {
    outlooks.push_back({.policy = each.policy(), .goals = {}});
  }
  return outlooks;
}

std::vector<std::string> names_of(const std::vector<PolicyOutlook>& outlooks) {
  std::vector<std::string> names;
  for (const PolicyOutlook& each : outlooks) names.push_back(each.policy);
  return names;
}

}  // namespace

Twin::Twin(Policy& inner, Options options)
    : inner_(inner),
      options_(std::move(options)),
      learner_(options_.columns),
      sums_(no_outlooks(options_)),
      rule_(names_of(sums_)) {}

void Twin::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  now_ = seen.now;
  begin_ = std::min(begin_, seen.now);
  learner_.learn_from(seen);
  resolve_forecasts(seen);
  if (seen.now >= next_) {
    forecast_timed(seen);
    next_ = seen.now + options_.every;
  }
  inner_.observe(context, seen, decisions);
  // Without a running job nothing ends, and the next arrival is an event.
  if (has_running_job(seen.jobs)) decisions.wake(next_);
}

// ---- scores ---------------------------------------------------------------------------------

void Twin::resolve_job(ForecastScore& score, std::string_view kind, const JobInfo& job, Nanos now) {
  for (const InstantForecast& each : score.resolve_job(job.spec.id, now)) {
    if (options_.at_known) options_.at_known({job.spec.name, kind, each, now});
  }
}

void Twin::resolve_forecasts(const Observation& seen) {
  for (const Event& event : seen.events) {
    if (const auto* started = std::get_if<JobStarted>(&event)) {
      resolve_job(starts_, "start", seen.jobs[started->job], seen.now);
    }
    const auto* done = std::get_if<JobDone>(&event);
    if (done == nullptr) continue;
    const JobInfo& job = seen.jobs[done->job];
    starts_.drop_job(job.spec.id);
    if (job.gpu_seconds > 0) {
      resolve_job(ends_, "end", job, seen.now);
    } else {
      ends_.drop_job(job.spec.id);  // cancelled before its start
    }
  }
}

// ---- forecasts ------------------------------------------------------------------------------

JobForecast Twin::forecast_job(const QueueSnapshot& from, std::size_t job,
                               const PolicyFutures& futures) {
  const JobId id = from.jobs()[job].known_as;
  JobForecast out{.job = from.spec(job).name,
                  .gpus = from.spec(job).gpus,
                  .start = starts_.forecast(futures.starts[job], from.now()),
                  .end = ends_.forecast(futures.ends[job], from.now()),
                  .alternatives = {}};
  starts_.add(id, out.start, futures.starts[job]);
  ends_.add(id, out.end, futures.ends[job]);
  return out;
}

void Twin::add_outlook(QueueForecast& made, const PolicyFutures& futures) {
  PolicyOutlook& outlook = made.policies.emplace_back();
  PolicyOutlook& sum = sums_[made.policies.size() - 1];
  outlook.policy = futures.policy;
  for (std::size_t goal = 0; goal < kQueueGoals; ++goal) {
    outlook.goals[goal] = futures.mean(static_cast<QueueGoal>(goal));
    sum.goals[goal] += outlook.goals[goal];
  }
}

void Twin::compare_policies(const QueueForecast& made) {
  for (std::size_t goal = 0; goal < kQueueGoals; ++goal) {
    double best = made.policies[0].goals[goal];
    for (const PolicyOutlook& each : made.policies) best = std::min(best, each.goals[goal]);
    regret_[goal] += made.policies[0].goals[goal] - best;
  }
  std::vector<double> goals;
  for (const PolicyOutlook& each : made.policies) {
    goals.push_back(each.goals[static_cast<std::size_t>(options_.goal)]);
  }
  const std::optional<PolicySwitch> choice = rule_.add_forecast(goals, made.made);
  if (choice && options_.at_choice) options_.at_choice(*choice);
}

void Twin::add_alternative(const QueueSnapshot& from, QueueForecast& made,
                           const PolicyFutures& futures) const {
  std::size_t waiting = 0;
  for (std::size_t job = 0; job < from.jobs().size(); ++job) {
    if (from.jobs()[job].is_running) continue;
    made.jobs[waiting++].alternatives.push_back(
        {.start = starts_.forecast(futures.starts[job], from.now()),
         .end = ends_.forecast(futures.ends[job], from.now())});
  }
}

QueueForecast Twin::forecast_queue(const Observation& seen) {
  const QueueSnapshot from(seen);
  learner_.learn_from_running(from);
  FutureOptions options = options_.futures;
  options.shares_unknowns = true;
  const std::vector<FutureDraw> draws = draw_futures(from, learner_, options);
  const PolicyFutures active = simulate_futures(from, draws, options_.active, options_.futures);
  QueueForecast made{.made = seen.now, .jobs = {}, .policies = {}, .node_loss = {}};
  for (std::size_t job = 0; job < from.jobs().size(); ++job) {
    if (from.jobs()[job].is_running) {
      ++made.running;
    } else {
      made.jobs.push_back(forecast_job(from, job, active));
    }
  }
  add_outlook(made, active);
  made.node_loss = forecast_node_loss(from, draws, active, options_.active, options_.futures,
                                      options_.node_away);
  node_loss_made_ = made.made;
  node_loss_ = made.node_loss;
  for (const JobReplay& each : options_.alternatives) {
    const PolicyFutures futures = simulate_futures(from, draws, each, options_.futures);
    add_outlook(made, futures);
    add_alternative(from, made, futures);
  }
  compare_policies(made);
  ++forecasts_;
  most_waiting_ = std::max<std::uint64_t>(most_waiting_, made.jobs.size());
  return made;
}

void Twin::forecast_timed(const Observation& seen) {
  if (!has_waiting_job(seen.jobs)) {
    if (options_.at_empty) options_.at_empty();
    return;
  }
  const double begin_s = options_.clock_s ? options_.clock_s() : 0;
  const QueueForecast made = forecast_queue(seen);
  if (options_.clock_s) times_s_.push_back(options_.clock_s() - begin_s);
  if (options_.at_forecast) options_.at_forecast(made);
}

// ---- results --------------------------------------------------------------------------------

TwinReport Twin::report() const {
  TwinReport out{.forecasts = forecasts_,
                 .most_waiting = most_waiting_,
                 .starts = starts_.rows(),
                 .ends = ends_.rows(),
                 .starts_beyond = starts_.beyond(),
                 .ends_beyond = ends_.beyond(),
                 .policies = sums_,
                 .regret = regret_,
                 .choices = rule_.switches(),
                 .node_loss_made = node_loss_made_,
                 .node_loss = node_loss_,
                 .first_week = {},
                 .first_quarter = {},
                 .second_half = {},
                 .all = {}};
  const double count = static_cast<double>(std::max<std::uint64_t>(forecasts_, 1));
  for (std::size_t goal = 0; goal < kQueueGoals; ++goal) {
    out.regret[goal] /= count;
    for (PolicyOutlook& each : out.policies) each.goals[goal] /= count;
  }
  const Nanos begin = begin_ == kNever ? 0 : begin_;
  out.first_week = learner_.accuracy(begin, begin + kWeek);
  out.first_quarter = learner_.accuracy(begin, begin + (now_ - begin) / 4);
  out.second_half = learner_.accuracy(begin + (now_ - begin) / 2, kNever);
  out.all = learner_.accuracy(begin, kNever);
  return out;
}

std::string known_forecasts_header() {
  return "job_id,kind,made_s,median_s,low80_s,high80_s,low95_s,high95_s,actual_s\n";
}

void write_forecast(const std::string& name, std::string_view kind, const InstantForecast& of,
                    const std::string& last, int decimals, std::string& out) {
  const auto seconds = [decimals](Nanos at) {
    return at == kNever ? std::string() : fmt::format("{:.{}f}", to_seconds(at), decimals);
  };
  fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{}\n", csv_field(name), kind,
                 seconds(of.made), seconds(of.median), seconds(of.low80), seconds(of.high80),
                 seconds(of.low95), seconds(of.high95), last);
}

void write_known(const KnownForecast& known, int decimals, std::string& out) {
  write_forecast(known.job, known.kind, known.forecast,
                 fmt::format("{:.{}f}", to_seconds(known.actual), decimals), decimals, out);
}

}  // namespace orrery::sim
