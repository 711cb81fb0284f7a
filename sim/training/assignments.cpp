#include "sim/training/assignments.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "policies/seam/job_lifecycle.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/loss_events.hpp"
#include "sim/training/next_step.hpp"
#include "sim/training/placement.hpp"
#include "sim/training/resharding.hpp"
#include "sim/training/step_commits.hpp"
#include "sim/training/step_sequence.hpp"

namespace orrery::sim {
namespace {

/// Not all of the GPUs are among those that work `here`.
bool takes_others(const Assign& assign, const GpuRuns& here) {
  return assign.gpus != here && std::any_of(assign.gpus.begin(), assign.gpus.end(),
                                            [&here](GpuId gpu) { return !here.contains(gpu); });
}

/// Holds the job until it is assigned again; a pending assignment becomes void.
void hold_job(const JobInWorld& here, TrainingState& state) {
  state.pending.reset();
  here.emit_event(JobHeld{state.id});
}

void activate_assignment(const JobInWorld& here, TrainingState& state,
                         const PendingAssignment& made) {
  tell_committed(here, state);
  const bool waited = !here.job(state.id).is_placed();
  if (made.state != StateFrom::peer && !waited) fail_saving(here, state);
  const Step saved = here.job(state.id).saved;
  if (made.state == StateFrom::checkpoint) {
    state.losses.record_rollback(state.step - saved);
    roll_back_to(state, saved);
  } else if (made.state == StateFrom::none && !waited) {
    if (!state.losses.has_resumed()) state.losses.record_rollback(state.step);
    roll_back_to(state, 0);
  }
  const std::shared_ptr<FittedJob> before = waited ? nullptr : state.fits.now;
  const JobInfo& job = here.job(state.id);
  JobStarted start = made.back.empty() ? start_of(job, state.step, made.where)
                                       : start_after_return(job, made.back);
  start.from = state.step;
  if (state.metrics.has_started()) {
    here.emit_event(start);
  } else {
    place_initially(here, state, start);
  }
  here.gate().expire_settings(state.id);
  // An assignment has filled the places of stalled ranks on these GPUs.
  if (made.back.empty()) {
    std::erase_if(state.fenced,
                  [&made](const auto& each) { return made.where.gpus.contains(each.first); });
  }
  number_gpus(state, made.where.gpus);
  refit_job(here, state);
  renew_spares(here, state, state.now + here.survival().replacement());
  if (!waited) {
    const Nanos reshard =
        made.state == StateFrom::peer ? reshard_time(here.cluster(), *before, state.fit()) : 0;
    stall_until(state, state.now + here.survival().regroup() + reshard, GpuUse::recovery);
  }
  if (made.where.layout != state.fits.first->where().layout || !start.lost.empty()) return;
  state.losses.mark_replaced(state.resume_at);
}

}  // namespace

void release_gpus(const JobInWorld& here, TrainingState& state) {
  abandon_step(state);
  tell_committed(here, state);
  fail_saving(here, state);
  state.pending.reset();
  state.losses.forget_unnoticed();
  state.metrics.time().interrupt_at(state.now);
  roll_back_to(state, here.job(state.id).saved);
  here.emit_event(stop_of(here.job(state.id), state.step));
  here.gate().reject_decisions(state.id, state.now);
  leave_step(here, state);
}

/// A replacement is there `replacement` after the loss; it is sent for once it is decided.
Nanos ready_time(const Survival& survival, const TrainingState& state, const JobInfo& job,
                 const Assign& assign) {
  const Nanos now = state.now;
  const bool anew = assign.state == StateFrom::none && job.is_placed();
  if (anew || assign.state == StateFrom::checkpoint) {
    return now + state.losses.restart_time(survival.restart());
  }
  if (!job.is_placed() || !takes_others(assign, state.fit().where().gpus)) return now;
  const std::vector<GpuId> starts = orders_of(job, assign).start;
  const bool warm = std::all_of(starts.begin(), starts.end(), [&state](GpuId gpu) {
    const auto spare = state.warm.find(gpu);
    return spare != state.warm.end() && spare->second <= state.now;
  });
  if (warm) return now + survival.warm_join();
  const Nanos replacement = state.losses.replacement_time(survival.replacement());
  if (!state.losses.has_losses()) return now + replacement;
  return now + std::max<Nanos>(0, replacement - survival.detection());
}

void assign_gpus(const JobInWorld& here, TrainingState& state, const Assign& assign) {
  const JobInfo& job = here.job(state.id);
  const Nanos ready = ready_time(here.survival(), state, job, assign);
  const bool restarts_running_job = job.is_restarting && job.phase == JobPhase::running;
  if (orders_of(job, assign).abandons_step) abandon_step(state);
  if (job.is_restarting) state.losses.forget_unnoticed();
  if (restarts_running_job) {
    tell_committed(here, state);
    fail_saving(here, state);
    here.contention().remove_job(state.id);
    here.emit_event(JobHeld{state.id});
  }
  // It comes true behind all that was decided with it.
  state.pending =
      PendingAssignment{{assign.gpus, assign.layout}, assign.state, ready, restarts_running_job};
  if (!state.metrics.has_started() || !state.is_idle()) return;
  state.metrics.time().interrupt_at(state.now);
  state.metrics.time().stall_until(ready, GpuUse::recovery);
}

/// If its hardware has broken meanwhile, who works waits for it working; who stands still is
/// assigned anew.
void change_between_steps(const JobInWorld& here, TrainingState& state) {
  forget_void_assignment(here, state);
  delay_replacement(here, state);
  if (!state.pending || state.now < state.pending->ready || state.now < state.resume_at) return;
  GpuRuns back;
  for (const GpuId gpu : state.pending->back) back.push_back(gpu);
  if (are_parts_healthy(here.world(), back.empty() ? state.pending->where.gpus : back)) {
    return activate_assignment(here, state, *std::exchange(state.pending, {}));
  }
  if (!back.empty()) return state.pending.reset();
  auto next = state.faults.plan.next_instant(state.now, end_of_patience(state));
  if (const Nanos report = next_report_time(state.faults); report < next.value_or(kNever)) {
    next = report;
  }
  const JobInfo& job = here.job(state.id);
  const bool held = job.phase == JobPhase::held && !state.pending->restarts_running_job;
  if (job.is_placed() && (!next || held)) return hold_job(here, state);
  if (!next) return state.pending.reset();
  state.pending->ready = *next;
}

}  // namespace orrery::sim
