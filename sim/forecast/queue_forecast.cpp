#include "sim/forecast/queue_forecast.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "traces/jobs/slowdown.hpp"

namespace orrery::sim {
namespace {

constexpr std::array<std::string_view, kQueueGoals> kGoalNames{"wait", "jct", "slowdown"};
constexpr double kLongest_s = 3e9;

/// Policy that begins in the middle of a run: it rebuilds its queue from the table of jobs.
class ResumedPolicy : public Policy {
 public:
  explicit ResumedPolicy(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}
  Needs needs() const override { return inner_->needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_->start(context, cluster, parameters);
    Archive empty;
    inner_->save(empty);
    inner_->load(empty);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    inner_->observe(context, seen, decisions);
  }

 private:
  std::unique_ptr<Policy> inner_;
};

/// Returns the numbers from 0 to `count` - 1 in random order.
std::vector<std::uint32_t> shuffled(std::uint32_t count, Rng& rng) {
  std::vector<std::uint32_t> out(count);
  std::iota(out.begin(), out.end(), 0);
  for (std::uint32_t i = count; i > 1; --i) std::swap(out[i - 1], out[rng.below(i)]);
  return out;
}

/// Returns one number uniform in [0, 1) for each draw, of equally wide parts in random order.
std::vector<double> stratified(std::size_t draws, Rng rng) {
  const std::vector<std::uint32_t> strata = shuffled(static_cast<std::uint32_t>(draws), rng);
  std::vector<double> out;
  for (const std::uint32_t stratum : strata) {
    out.push_back((stratum + rng.uniform()) / static_cast<double>(draws));
  }
  return out;
}

/// Returns the rest of a duration after `served`, at least one second.
Nanos rest_of(double duration_s, Nanos served) {
  return std::max<Nanos>(to_nanos(std::min(duration_s, kLongest_s)) - served, kNanosPerSecond);
}

/// Draws the rest of each job's duration from its own distribution.
void draw_rests_alone(const QueueSnapshot& from, const QueueLearner& learner, const Rng& seeded,
                      std::vector<FutureDraw>& draws) {
  for (std::size_t job = 0; job < from.jobs().size(); ++job) {
    const Nanos served = from.jobs()[job].served;
    const DurationDistribution duration = learner.duration_of(from.spec(job), served);
    const std::vector<double> fractions =
        stratified(draws.size(), seeded.split_stream(from.spec(job).name));
    for (std::size_t i = 0; i < draws.size(); ++i) {
      draws[i].left.push_back(rest_of(duration.quantile(fractions[i]), served));
    }
  }
}

/// Job with its kinds, and the fraction of its duration in each draw.
struct UnknownJob {
  DurationModel::JobKinds kinds;
  std::vector<double> fractions;
};

/// Adds the means of one future to the goals.
void add_goals(const QueueSnapshot& from, const FutureDraw& draw,
               const std::vector<ForkedJob>& jobs, Nanos until, PolicyFutures& out) {
  std::array<double, kQueueGoals> sums{};
  const std::size_t known = from.jobs().size();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Nanos begin = i < known ? from.now() : draw.later[i - known].spec.submit;
    const Nanos submit = i < known ? from.spec(i).submit : begin;
    const Nanos duration =
        i < known ? from.jobs()[i].served + draw.left[i] : draw.later[i - known].duration;
    const Nanos end = std::min(jobs[i].end, until);
    sums[0] += to_seconds(jobs[i].waited);
    sums[1] += to_seconds(end - begin);
    sums[2] += bounded_slowdown(end - submit, duration);
  }
  const auto count = static_cast<double>(std::max<std::size_t>(jobs.size(), 1));
  for (std::size_t goal = 0; goal < kQueueGoals; ++goal) {
    out.goals[goal].push_back(sums[goal] / count);
  }
}

}  // namespace

std::string_view name_of(QueueGoal goal) { return kGoalNames[static_cast<std::size_t>(goal)]; }

std::vector<std::string> queue_goal_names() { return {kGoalNames.begin(), kGoalNames.end()}; }

QueueGoal queue_goal(const std::string& name) {
  const auto found = std::find(kGoalNames.begin(), kGoalNames.end(), name);
  if (found != kGoalNames.end()) return static_cast<QueueGoal>(found - kGoalNames.begin());
  throw Error(ErrorKind::usage, fmt::format("expected a goal (wait, jct, slowdown), got '{}'{}",
                                            name, did_you_mean(name, queue_goal_names())));
}

double PolicyFutures::mean(QueueGoal goal) const {
  const std::vector<double>& of = goals[static_cast<std::size_t>(goal)];
  return std::accumulate(of.begin(), of.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(of.size(), 1));
}

std::unique_ptr<Policy> resumed_policy(const JobReplay& replay) {
  return resumed_policy(make_stack(replay));
}

std::unique_ptr<Policy> resumed_policy(std::unique_ptr<Policy> policy) {
  return std::make_unique<ResumedPolicy>(std::move(policy));
}

void run_future(ForkedQueue& future, Policy& policy) {
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(policy, future, context);
}

std::vector<FutureDraw> draw_futures(const QueueSnapshot& from, const QueueLearner& learner,
                                     const FutureOptions& options) {
  std::vector<FutureDraw> draws(options.samples);
  const Rng seeded = Rng(options.seed).split_stream("futures");
  Rng rng = seeded.split_stream(std::to_string(from.now()));
  const Nanos until = from.now() + options.horizon;
  if (!options.shares_unknowns) {
    draw_rests_alone(from, learner, seeded, draws);
    for (FutureDraw& draw : draws) {
      draw.later = learner.draw_arrivals(from.now(), until, options.most_arrivals, rng);
    }
    return draws;
  }
  std::vector<UnknownJob> unknown;
  for (std::size_t job = 0; job < from.jobs().size(); ++job) {
    const JobSpec& spec = from.spec(job);
    unknown.push_back(
        {learner.kinds_for(spec), stratified(draws.size(), seeded.split_stream(spec.name))});
  }
  const std::vector<double> which = stratified(draws.size(), seeded.split_stream("kinds"));
  for (std::size_t i = 0; i < draws.size(); ++i) {
    PossibleDurations possible(which[i], seeded.split_stream(fmt::format("durations {}", i)));
    for (std::size_t job = 0; job < unknown.size(); ++job) {
      const Nanos served = from.jobs()[job].served;
      const double duration_s =
          possible.draw_duration(unknown[job].kinds, to_seconds(served), unknown[job].fractions[i]);
      draws[i].left.push_back(rest_of(duration_s, served));
    }
    draws[i].later =
        learner.draw_arrivals(from.now(), until, options.most_arrivals, rng, &possible);
  }
  return draws;
}

PolicyFutures simulate_futures(const QueueSnapshot& from, const std::vector<FutureDraw>& draws,
                               const JobReplay& replay, const FutureOptions& options,
                               const LaterChanges& changes) {
  const std::size_t known = from.jobs().size();
  const Nanos until = from.now() + options.horizon + options.rest;
  PolicyFutures out{.policy = replay.policy(), .starts = {}, .ends = {}, .goals = {}};
  out.starts.resize(known);
  out.ends.resize(known);
  for (std::size_t job = 0; job < known; ++job) {
    out.starts[job].reserve(draws.size());
    out.ends[job].reserve(draws.size());
  }
  World world = from.world();
  for (const FutureDraw& draw : draws) {
    ForkedQueue future(std::move(world), from, draw.left, draw.later, until, changes,
                       FirstEvents::one);
    run_future(future, *resumed_policy(replay));
    for (std::size_t job = 0; job < known; ++job) {
      out.starts[job].push_back(future.jobs()[job].start);
      out.ends[job].push_back(future.jobs()[job].end);
    }
    add_goals(from, draw, future.jobs(), until, out);
    world = future.release_world();
    if (&draw != &draws.back()) world.restore_state(from.world());
  }
  for (auto& each : out.starts) std::sort(each.begin(), each.end());
  for (auto& each : out.ends) std::sort(each.begin(), each.end());
  return out;
}

}  // namespace orrery::sim
