#include "policies/checkpointing/checkpoint_interval.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/checkpointing/interval.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Relative difference below which an interval stays: the gain would be of second order.
constexpr double kTolerance = 0.1;
constexpr double kLeastCost = 1e-3;  ///< seconds; one that costs nothing would be due at every step

bool differs(std::uint64_t asked, std::uint64_t steps) {
  const auto now = static_cast<double>(asked);
  return std::abs(static_cast<double>(steps) - now) > kTolerance * now;
}

}  // namespace

Needs CheckpointInterval::needs() const {
  return {.actions = Kinds<Action>::of<Configure>(),
          .settings = Kinds<Setting>::of<CheckpointPlan>(),
          .step_times = true};
}

void CheckpointInterval::start(Context&, const Cluster&,
                               const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const CheckpointIntervalParameters*>(parameters);
  ensure(parameters == nullptr || given != nullptr,
         "a policy is started with parameters of its own type");
  if (given != nullptr) parameters_ = *given;
  fill_defaults(parameters_);
  method_ = named<IntervalMethod>(parameters_.method());
}

void CheckpointInterval::observe(Context&, const Observation& seen, DecisionList& decisions) {
  std::vector<JobId> due;
  for (const Event& event : seen.events) {
    if (const auto* done = std::get_if<StepsDone>(&event)) {
      Watched& job = jobs_[done->job];
      job.step_s = to_seconds(done->duration) / static_cast<double>(done->count);
      plan(seen, done->job, decisions);
    } else if (const auto* saved = std::get_if<SaveDone>(&event)) {
      if (saved->durable) jobs_[saved->job].cost_s = to_seconds(saved->stalled);
      plan(seen, saved->job, decisions);
    } else if (const auto* lost = std::get_if<RanksLost>(&event)) {
      ++jobs_[lost->job].failures;
      plan(seen, lost->job, decisions);
    } else if (const auto* started = std::get_if<JobStarted>(&event)) {
      Watched& job = jobs_[started->job];
      if (job.since == 0) job.since = seen.now;
    } else if (const auto* over = std::get_if<JobDone>(&event)) {
      jobs_.erase(over->job);
    } else if (std::holds_alternative<Tick>(event)) {
      for (const auto& [id, of] : jobs_) {
        if (of.wake > 0 && of.wake <= seen.now) due.push_back(id);
      }
    }
  }
  for (const JobId id : due) plan(seen, id, decisions);
  decisions.rest();
}

double CheckpointInterval::mtbf_s(const Watched& of, Nanos now) const {
  const double believed = to_seconds(parameters_.mtbf());
  if (method_ != IntervalMethod::adaptive) return believed;
  return (to_seconds(now - of.since) + believed) / static_cast<double>(of.failures + 1);
}

double CheckpointInterval::interval_s(const Watched& of, Nanos now) const {
  if (method_ == IntervalMethod::fixed) return to_seconds(parameters_.interval());
  const double cost = std::max(kLeastCost, of.cost_s.value_or(to_seconds(parameters_.cost())));
  const double mtbf = mtbf_s(of, now);
  return method_ == IntervalMethod::young ? young_interval(cost, mtbf) : daly_interval(cost, mtbf);
}

/// The mean time between failures grows while no rank is lost: the interval changes without an
/// event. Not of a job on hold, whose next step plans anew: nobody may ever assign the job.
void CheckpointInterval::wake_for_change(const Observation& seen, Watched& of,
                                         DecisionList& decisions) const {
  if (method_ != IntervalMethod::adaptive || of.asked == 0) return;
  const auto changes_at = [&](Nanos at) { return differs(of.asked, steps_of(of, at)); };
  Nanos least = seen.now, most = seen.now;
  for (Nanos span = kNanosPerSecond; !changes_at(most); span *= 2) {
    least = most;
    if (most > kNever / 4) return;
    most = seen.now + span;
  }
  while (most - least > 1) {
    const Nanos middle = least + (most - least) / 2;
    (changes_at(middle) ? most : least) = middle;
  }
  if (of.wake > seen.now && of.wake <= most) return;
  of.wake = most;
  decisions.wake(most);
}

std::uint64_t CheckpointInterval::steps_of(const Watched& of, Nanos now) const {
  return static_cast<std::uint64_t>(
      std::max(1.0, std::nearbyint(interval_s(of, now) / of.step_s)));
}

void CheckpointInterval::plan(const Observation& seen, JobId id, DecisionList& decisions) {
  const JobInfo* job = seen.jobs.find(id);
  Watched& of = jobs_[id];
  if (job == nullptr || !job->is_placed() || of.step_s <= 0) return;
  if (!job->spec.can.has<CheckpointPlan>()) return;  // every decision would be refused
  const std::uint64_t steps = steps_of(of, seen.now);
  if (of.asked == 0 || differs(of.asked, steps)) {
    of.asked = steps;
    decisions.add(Configure{id, CheckpointPlan{steps, Tier::local_disk}},
                  fmt::format("{}: every {:.4g} s, of {:.3g} s a step", parameters_.method(),
                              interval_s(of, seen.now), of.step_s));
  }
  if (job->phase == JobPhase::running) wake_for_change(seen, of, decisions);
}

void CheckpointInterval::save(Archive& archive) const {
  archive.clear();
  ByteWriter write(archive);
  for (const auto& [id, of] : jobs_) {
    write(id.value);
    write(of.since);
    write(of.failures);
    write(of.step_s);
    write(of.cost_s.value_or(-1));
    write(of.asked);
    write(of.wake);
  }
}

void CheckpointInterval::load(const Archive& archive) {
  jobs_.clear();
  ByteReader read(archive);
  while (!read.is_at_end()) {
    JobId id{};
    Watched of;
    double cost = 0;
    read(id.value);
    read(of.since);
    read(of.failures);
    read(of.step_s);
    read(cost);
    read(of.asked);
    read(of.wake);
    if (cost >= 0) of.cost_s = cost;
    jobs_[id] = of;
  }
}

}  // namespace orrery
