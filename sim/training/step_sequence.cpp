#include "sim/training/step_sequence.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/training/job_faults.hpp"
#include "sim/training/loss_events.hpp"
#include "sim/training/next_step.hpp"
#include "sim/training/placement.hpp"
#include "sim/training/step_commits.hpp"
#include "sim/training/storage_traffic.hpp"

namespace orrery::sim {
namespace {

using Watch = JobModel::Watch;
using Simulated = std::shared_ptr<const estimates::SimulatedStep>;

/// Returns the first step after the current one at which conditions may change or a checkpoint of
/// the plan is due, or the number of steps of the job if that comes first.
Step next_boundary(const JobInWorld& here, const TrainingState& state) {
  const Step step = state.step;
  Step boundary =
      std::min(here.scenario().run().steps(), here.gate().next_effect(state.id, step));
  if (const auto change = state.faults.plan.next_change(step)) {
    boundary = std::min(boundary, *change);
  }
  // A plan that was decided during the current step applies from the next step on.
  for (const CheckpointPlan& plan :
       {state.saving.plan(), here.job(state.id).now.get<CheckpointPlan>()}) {
    const std::uint64_t every = plan.every_steps;
    if (every > 0) boundary = std::min(boundary, (step / every + 1) * every);
  }
  return boundary;
}

/// Returns the first instant from now on at which conditions may change; kNever if none follows.
Nanos next_interruption(const JobInWorld& here, const TrainingState& state, const Watch& watch) {
  const Nanos next = std::min({watch.limit, here.gate().next_wake(),
                               next_report_time(state.faults), state.saving.next(),
                               state.next_change(),
                               here.setup().power.next_change(state.now)});
  const auto fault = state.faults.plan.next_instant(state.now - 1);
  return fault ? std::min(next, *fault) : next;
}

void draw_new_step(const JobInWorld& here, const TrainingState& state,
                   const estimates::SimulatedStep& what, std::uint64_t simulated_before) {
  if (here.timeline() == nullptr) return;
  if (state.fit().stepper().simulated() <= simulated_before) return;
  here.timeline()->add(what, state.step, state.now);
}

void count_steps(const JobInWorld& here, TrainingState& state,
                 const estimates::SimulatedStep& each, Nanos duration, std::uint64_t count,
                 const std::vector<double>& stretch) {
  const std::vector<std::uint32_t>& shares = state.conditions->shares;
  const std::uint32_t batch = state.drops_lost_work
                                  ? std::accumulate(shares.begin(), shares.end(), 0u)
                                  : here.job(state.id).micro_batches();
  state.metrics.commit_steps(here.setup(), each, duration, count, *state.conditions, batch,
                             state.fit().graph().data(), stretch);
}

/// `count` steps have ended now, the last one after `last`; they are in the metrics.
void record_gone_steps(const JobInWorld& here, TrainingState& state, const Simulated& each,
                       std::uint64_t count, Nanos took, Nanos last, bool tell) {
  const Step newest = state.step + count - 1;
  const StepGraph& graph = state.fit().graph();
  Telemetry& telemetry = state.fit().telemetry();
  const std::vector<double> stretch = telemetry.stretch(newest, state.now - last, graph.data());
  state.exchange.record_step(state.id, newest, *each, last, stretch, graph);
  telemetry.begin_step(estimates::PlayedStep(newest, state.now - last, each, stretch));
  commit_steps(here, state, count, took, tell);
}

/// They are told at the instant that has come.
bool skip_noisy(const JobInWorld& here, TrainingState& state, const Simulated& each,
                const Watch& watch) {
  const Step boundary = next_boundary(here, state);
  Nanos limit = next_interruption(here, state, watch);
  const Nanos began = state.now;
  Nanos last = 0;
  std::uint64_t count = 0;
  for (; state.step + count < boundary; ++count) {
    const std::vector<double> stretch = state.fit().telemetry().stretch(
        state.step + count, state.now, state.fit().graph().data());
    const Nanos duration = length_of(*each, state.step, state.now, stretch);
    if (here.reach_milestones(state.now + duration)) {
      limit = next_interruption(here, state, watch);
    }
    if (duration > limit - state.now) break;
    count_steps(here, state, *each, duration, 1, stretch);
    state.now += duration;
    last = duration;
  }
  if (count == 0) return false;
  record_gone_steps(here, state, each, count, state.now - began, last, true);
  return true;
}

/// Advances at once by as many of the next steps as no event interrupts.
bool skip_ahead(const JobInWorld& here, TrainingState& state, const Watch& watch) {
  state.metrics.time().interrupt_at(state.now);
  if (!state.losses.has_resumed() || state.saving.is_requested()) return false;
  const JobInfo& job = here.job(state.id);
  state.saving.step_begins(job.now.get<CheckpointPlan>());
  if (!next_losses(job, state, state.step, state.now, state.now + 1).empty()) return false;
  const std::uint64_t simulated = state.fit().stepper().simulated();
  auto each = undisturbed_step(here, state);
  draw_new_step(here, state, *each, simulated);
  if (each->run.cut_short) return false;
  // How long noisy steps take together is known once they have been drawn, so they cannot be cut.
  if (here.scenario().noise().compute_cv() > 0) {
    // The bytes of a checkpoint that have been written depend on the noise of each step.
    return watch.alone && !state.saving.is_flowing() && skip_noisy(here, state, each, watch);
  }
  const Nanos length = length_of(*each, state.step, state.now, {});
  renew_write_rate(here, state, length);
  const Nanos limit = next_interruption(here, state, watch);
  const auto room =
      static_cast<std::uint64_t>((limit - state.now) / std::max<Nanos>(length, 1));
  const std::uint64_t count =
      std::min<std::uint64_t>(next_boundary(here, state) - state.step, room);
  if (count == 0) return false;
  state.stretch =
      Stretch{.each = std::move(each), .began = state.now, .length = length, .count = count};
  return true;
}

void open_step(const JobInWorld& here, TrainingState& state, Simulated what,
               std::vector<double> stretch) {
  state.open.emplace(state.step, state.now, std::move(what), std::move(stretch));
  here.contention().next_step(state.id, state.open->end());
  state.fit().telemetry().begin_step(*state.open);
}

/// Opens the current step, begun now, with its noise and with the changes during it.
void open_with_changes(const JobInWorld& here, TrainingState& state) {
  FittedJob& fit = state.fit();
  const std::uint64_t simulated = fit.stepper().simulated();
  std::vector<double> stretch =
      fit.telemetry().stretch(state.step, state.now, fit.graph().data());
  auto what = step_with_changes(here, state, stretch);
  if (what->run.cut_short) stretch.clear();
  draw_new_step(here, state, *what, simulated);
  open_step(here, state, std::move(what), std::move(stretch));
}

/// Returns whether conditions change between `from` and `to`, both within the current step.
bool changes_within(const TrainingState& state, Nanos from, Nanos to) {
  const std::vector<Nanos> instants = state.faults.plan.instants(from, to);
  return std::any_of(instants.begin(), instants.end(), [&state](Nanos instant) {
    return hardware_at(state, instant) != state.conditions->state;
  });
}

void open_next_step(const JobInWorld& here, TrainingState& state) {
  state.metrics.time().interrupt_at(state.now);
  open_with_changes(here, state);
  state.saving.step_begins(here.job(state.id).now.get<CheckpointPlan>());
  FaultPlan& plan = state.faults.plan;
  plan.mark_felt(state.step, state.now);
  for (const Nanos instant : plan.instants(state.now, state.open->end())) {
    note_parts(state.faults, state.step, instant);
    plan.mark_felt(state.step, instant);
    state.stalled += stalled_by(here.setup(), state, instant);
  }
  if (changes_within(state, state.now, state.open->end())) state.watched = false;
  if (state.open->what().run.cut_short) plan.mark_felt(state.step, state.open->end());
}

}  // namespace

/// A promise to rest covers only known steps: it is valid after the policy has seen a whole step
/// under the present conditions. A policy that reads nothing may rest at any time.
bool is_resting(const TrainingSetup& setup, const TrainingState& state, const Watch& watch) {
  const bool unequal = watch.step_times && setup.scenario().noise().compute_cv() > 0;
  return watch.resting && !setup.request.full_detail() && !unequal && is_unchanged(state, watch);
}

void enter_new_step(const JobInWorld& here, TrainingState& state) {
  // A part that no rank uses changes nothing for the step, but policies must know of it.
  const bool begins =
      state.step == 0 || state.faults.plan.next_change(state.step - 1) == state.step;
  const bool differs = enter_step(here, state);
  if (differs) state.watched = false;
  if (differs || begins) note_parts(state.faults, state.step, state.now);
}

void begin_steps(const JobInWorld& here, TrainingState& state, const Watch& watch) {
  if (update_contention(here, state)) state.watched = false;
  state.tells_all = watch.step_times;
  if (is_resting(here.setup(), state, watch) && skip_ahead(here, state, watch)) return;
  open_next_step(here, state);
}

void restart_current_step(const JobInWorld& here, TrainingState& state, Nanos began) {
  const Nanos now = std::exchange(state.now, began);
  enter_new_step(here, state);
  open_next_step(here, state);
  if (state.open->end() <= now) state.open.reset();  // it was longer than it would be here
  state.now = now;
  std::vector<Event> told;  // already
  drain_reports(state.faults, now, told);
}

void reopen_step(const JobInWorld& here, TrainingState& state, Nanos began) {
  const Nanos now = std::exchange(state.now, began);
  open_with_changes(here, state);
  state.now = now;
}

void settle_steps(const JobInWorld& here, TrainingState& state, Nanos at) {
  if (!state.stretch) return;
  const Stretch gone = *std::exchange(state.stretch, {});
  const std::uint64_t count = gone.ended_by(at);
  const Nanos took = gone.length * static_cast<Nanos>(count);
  state.now = gone.began + took;
  if (count > 0) {
    count_steps(here, state, *gone.each, gone.length, count, {});
    record_gone_steps(here, state, gone.each, count, took, gone.length, state.now == at);
  }
  if (state.now == at) return;
  if (state.tells_all) tell_committed(here, state);
  open_step(here, state, gone.each, {});
  state.now = at;
}

void close_step(const JobInWorld& here, TrainingState& state, const Watch& watch) {
  const estimates::PlayedStep played = std::move(*state.open);
  state.open.reset();
  const StepGraph& graph = state.fit().graph();
  const Nanos stalled = std::exchange(state.stalled, 0);
  if (played.what().run.cut_short) {
    state.metrics.time().lose_step(played.start(), state.now, graph.ranks());
    if (!survive_cut_step(here, state, played)) end_job(here, state, Ending::failed);
    return;
  }
  count_steps(here, state, played.what(), played.duration(), 1, played.stretch());
  state.exchange.record_step(state.id, state.step, played.what(), played.duration(),
                             played.stretch(), graph);
  // A resting policy is told of the last step before something may differ.
  const bool tell = !is_resting(here.setup(), state, watch) || state.tells_all ||
                    state.step + 1 >= next_boundary(here, state) ||
                    here.gate().has_waiting(state.id) || state.saving.is_after_this_step();
  // A step that changes while it runs shows no policy the conditions of the next one.
  if (tell && !state.watched) {
    state.watched = !changes_within(state, played.start(), state.now);
  }
  if (stalled > 0) {
    stall_until(state, std::max(state.now, state.resume_at) + stalled, GpuUse::recovery);
  }
  commit_steps(here, state, 1, played.duration(), tell);
}

void abandon_step(TrainingState& state) {
  if (!state.open) return;
  std::uint64_t done = 0;
  const StepGraph& graph = state.fit().graph();
  for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
    double least = state.open->done(replica, 0, state.now);
    for (std::uint32_t stage = 1; stage < graph.pipeline(); ++stage) {
      least = std::min(least, state.open->done(replica, stage, state.now));
    }
    done += static_cast<std::uint64_t>(std::floor(least));
  }
  state.metrics.discard_work(done);
  state.metrics.time().lose_step(state.open->start(), state.now, graph.ranks());
  state.open.reset();
  state.stalled = 0;
}

void append_exchange(const TrainingState& state, std::vector<CollectiveSample>& out) {
  if (state.fit().graph().data() > 1) state.exchange.read(out);
}

}  // namespace orrery::sim
