#include "sim/forecast/policy_choice.hpp"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "policies/run/registry.hpp"

namespace orrery::sim {
namespace {

std::vector<std::string> names_of(const std::vector<JobReplay>& candidates) {
  std::vector<std::string> names;
  for (const JobReplay& each : candidates) names.push_back(each.policy());
  return names;
}

FutureOptions with_samples(FutureOptions futures, std::uint32_t samples) {
  futures.samples = samples;
  return futures;
}

}  // namespace

PolicyChoice::PolicyChoice(Options options)
    : options_(std::move(options)),
      learner_(options_.columns),
      rule_(names_of(options_.candidates), options_.thresholds),
      guard_(options_.candidates.front(), options_.goal,
             with_samples(options_.futures, kCheckSamples)),
      policy_(make_stack(options_.candidates.front())) {}

void PolicyChoice::start(Context& context, const Cluster& cluster,
                         const google::protobuf::Message*) {
  policy_->start(context, cluster, nullptr);
}

void PolicyChoice::activate_chosen(Context& context, const Cluster& cluster) {
  active_ = rule_.chosen_policy();
  policy_ = resumed_policy(options_.candidates[active_]);
  policy_->start(context, cluster, nullptr);
}

void PolicyChoice::set_parameter(const ParameterSet& set) {
  const std::string change = fmt::format("{}.{}={}", set.policy, set.parameter, set.value);
  for (JobReplay& each : options_.candidates) {
    if (each.policy() == set.policy) each.add_set(change);
  }
}

void PolicyChoice::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  for (const Event& event : seen.events) {
    if (const auto* set = std::get_if<ParameterSet>(&event)) set_parameter(*set);
  }
  learner_.learn_from(seen);
  if (guard_.is_on()) guard_.record_events(seen);
  if (seen.now >= next_) {
    forecast(seen);
    next_ = seen.now + options_.every;
  }
  if (rule_.chosen_policy() != active_) activate_chosen(context, seen.cluster);
  policy_->observe(context, seen, decisions);
  // Without a running job nothing ends, and the next arrival is an event.
  if (has_running_job(seen.jobs)) decisions.wake(next_);
}

void PolicyChoice::forecast(const Observation& seen) {
  if (!has_waiting_job(seen.jobs)) return;
  const QueueSnapshot from(seen);
  const std::vector<FutureDraw> draws = draw_futures(from, learner_, options_.futures);
  std::vector<double> goals;
  for (const JobReplay& each : options_.candidates) {
    goals.push_back(simulate_futures(from, draws, each, options_.futures).mean(options_.goal));
  }
  const std::optional<PolicySwitch> made = rule_.add_forecast(goals, seen.now);
  if (!made) return check_realised(seen);
  if (rule_.chosen_policy() == 0) {
    guard_.end();
  } else if (!guard_.is_on()) {
    guard_.begin(seen);
    unchecked_ = 0;
  }
  if (options_.at_switch) options_.at_switch(*made);
}

void PolicyChoice::check_realised(const Observation& seen) {
  if (!guard_.is_on() || ++unchecked_ < options_.check_every) return;
  unchecked_ = 0;
  const ChoiceGuard::Means means = guard_.compare_means(seen, learner_);
  if (means.realised > (1 + options_.most_loss) * means.first) {
    guard_.end();
    const PolicySwitch made = rule_.return_to_first(means.realised, means.first, seen.now);
    if (options_.at_switch) options_.at_switch(made);
  } else if (guard_.jobs() > kMostJobs) {
    guard_.begin(seen);
  }
}

}  // namespace orrery::sim
