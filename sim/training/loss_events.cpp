#include "sim/training/loss_events.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/placement.hpp"
#include "sim/training/step_commits.hpp"

namespace orrery::sim {
namespace {

/// Time from a loss until the remaining ranks know of it.
template <class Loss>
Nanos detection_of(const Survival& survival, const Loss& loss) {
  return loss.detection.value_or(loss.silent ? survival.heartbeat_timeout() : survival.detection());
}

/// Records the deaths of these ranks; the remaining ranks detect silent ranks later than dead ones.
void lose_ranks(const JobInWorld& here, TrainingState& state, const std::vector<StruckRank>& lost) {
  ensure(!lost.empty(), "a step is cut short by a fault");
  const Survival& survival = here.survival();
  const Nanos now = state.now;
  state.saving.spoil_current();
  here.contention().remove_job(state.id);
  for (const auto& [rank, each] : lost) {
    const Nanos noticed = now + detection_of(survival, each);
    const Nanos silence = now + suspicion_time(survival.heartbeat_timeout());
    const Nanos suspected = each.silent && silence < noticed ? silence : kNever;
    state.losses.record_death(rank, each.cause, now, noticed, suspected, each.restart,
                              each.replacement);
    if (each.corrupted) {
      const Nanos since = now - *each.corrupted;
      state.corrupted_since = std::min(since, state.corrupted_since.value_or(since));
    }
    if (each.returns) state.fenced[state.fits.numbered.at(each.rank.value)] = *each.returns;
    if (here.timeline() != nullptr) here.timeline()->instant(now, each.cause);
    state.resume_at = std::max(state.resume_at, noticed + survival.regroup());
  }
  state.metrics.time().stall_for_loss(now, state.losses.all_noticed(now), state.resume_at);
}

/// A process that is lost while it starts on healthy hardware is started again, which is no loss of
/// a rank.
void delay_restart(const JobInWorld& here, TrainingState& state) {
  if (!state.pending) return;
  const auto struck = drain_starting_losses(here, state);
  if (struck.empty()) return;
  const Survival& survival = here.survival();
  Nanos& ready = state.pending->ready;
  for (const FatalFault& each : struck) {
    const Nanos restart = each.restart.value_or(survival.restart());
    ready = std::max(ready, state.now + detection_of(survival, each) + restart);
  }
  state.metrics.time().stall_until(ready, GpuUse::recovery);
}

}  // namespace

void delay_replacement(const JobInWorld& here, TrainingState& state) {
  if (!state.pending) return;
  const Survival& survival = here.survival();
  Nanos& ready = state.pending->ready;
  for (const StruckStart& each : state.pending->struck) {
    if (each.at > state.now) continue;
    const Nanos replacement = each.replacement.value_or(survival.replacement());
    ready = std::max(ready, each.at + detection_of(survival, each) + replacement);
  }
  const auto is_past = [&state](const StruckStart& each) { return each.at <= state.now; };
  if (std::erase_if(state.pending->struck, is_past) == 0) return;
  if (here.job(state.id).phase != JobPhase::held) return;
  state.metrics.time().stall_until(ready, GpuUse::recovery);
}

void apply_faults_between_steps(const JobInWorld& here, TrainingState& state) {
  if (!state.metrics.has_started() || state.metrics.is_over() || !state.is_idle()) return;
  if (is_stalled_job(here, state)) {
    const JobInfo& job = here.job(state.id);
    if (job.is_restarting) delay_restart(here, state);
    const auto lost = drain_losses(job, state, {}, state.now, state.now + 1);
    if (!lost.empty()) return lose_ranks(here, state, lost);
  }
  if (state.faults.plan.has_change_at(state.now)) note_parts(state.faults, state.step, state.now);
}

/// Without its network the job waits for it, or ends here if that does not come back; without some
/// of its ranks it may go on.
bool survive_cut_step(const JobInWorld& here, TrainingState& state,
                      const estimates::PlayedStep& played) {
  const std::optional<LinkId> broken = played.what().run.broken;
  if (!broken) {
    state.metrics.discard_work(played.what());
    lose_ranks(here, state,
               drain_losses(here.job(state.id), state, state.step, played.start(), kNever));
    return true;
  }
  if (const auto up = state.faults.plan.up_again(*broken, state.step, state.now)) {
    state.metrics.discard_work(played.what());
    note_parts(state.faults, state.step, state.now);
    stall_until(state, *up, GpuUse::recovery);
    return true;
  }
  const FatalFault fatal = state.faults.plan.cause_of(*broken, state.step, state.now);
  state.losses.record_job_loss(fatal.cause, state.now);
  if (here.timeline() != nullptr) here.timeline()->instant(state.now, fatal.cause);
  return false;
}

void wait_for_storage(const JobInWorld& here, TrainingState& state) {
  leave_step(here, state);
  const auto next = state.faults.plan.next_instant(state.now, end_of_patience(state));
  if (next) return stall_until(state, *next, GpuUse::input);
  state.losses.record_job_loss("the storage of the training data never accepts reads again",
                               state.now);
  end_job(here, state, Ending::failed);
}

void fail_saving(const JobInWorld& here, TrainingState& state) {
  for (SaveDone& failed : state.saving.abandon_saves()) here.emit_event(std::move(failed));
}

void notice_losses(const JobInWorld& here, TrainingState& state) {
  if (state.metrics.is_over()) return;
  if (auto suspected = suspicion_of(here.job(state.id), state.losses.silent_ranks(state.now))) {
    here.emit_event(std::move(*suspected));
  }
  const Losses::Noticed noticed = state.losses.drain_noticed(state.now, state.resume_at);
  if (noticed.ranks.empty()) return;
  RanksLost loss = loss_of(here.job(state.id), noticed.ranks);
  if (const auto since = std::exchange(state.corrupted_since, {})) {
    loss.intact = state.saving.newest_intact(*since);
  }
  here.emit_event(std::move(loss));
  here.gate().expire_settings(state.id);
  fail_saving(here, state);
  forget_void_assignment(here, state);
  const JobInfo& job = here.job(state.id);
  const ParallelLayout left = without_lost(job).layout;
  const AfterLoss after = after_loss(job, layout_objection(here.scenario().job(), left).empty());
  if (after.is_assigned && (!state.pending || !state.pending->back.empty())) {
    state.pending = PendingAssignment{
        *job.next, StateFrom::peer,
        std::max(state.now,
                 noticed.first + state.losses.replacement_time(here.survival().replacement()))};
  }
  // The new ranks load the newest checkpoint.
  if (after.is_state_lost && state.pending && state.pending->state == StateFrom::peer) {
    const Nanos restart = state.losses.restart_time(here.survival().restart());
    state.pending->state = StateFrom::checkpoint;
    state.pending->ready = std::max(state.pending->ready, noticed.first + restart);
  }
  if (after.held) return here.emit_event(JobHeld{state.id});
  refit_job(here, state);
}

void review_heard_ranks(const JobInWorld& here, TrainingState& state) {
  if (state.fenced.empty() || state.losses.has_unnoticed() || state.metrics.is_over()) return;
  const JobInfo& job = here.job(state.id);
  if (job.is_corrupted) return;
  std::vector<GpuId> heard;
  for (const auto& [gpu, at] : state.fenced) {
    if (at <= state.now && are_parts_healthy(here.world(), GpuRuns::range(gpu, 1))) {
      heard.push_back(gpu);
    }
  }
  const ReturnOrders orders = returns_of(job, heard, [&](std::uint32_t replicas) {
    ParallelLayout layout = job.layout;
    layout.data = replicas;
    return layout_objection(here.scenario().job(), layout).empty();
  });
  for (const GpuId gpu : orders.end) state.fenced.erase(gpu);
  for (const GpuId gpu : orders.readmit) state.fenced.erase(gpu);
  if (job.next || orders.readmit.empty()) return;
  PendingAssignment back{
      {job.gpus, job.layout}, StateFrom::peer, state.now + here.survival().warm_join()};
  back.back = orders.readmit;
  if (state.pending) {
    back.back.insert(back.back.end(), state.pending->back.begin(), state.pending->back.end());
  }
  state.pending = std::move(back);
  if (job.phase != JobPhase::held) return;
  state.metrics.time().interrupt_at(state.now);
  state.metrics.time().stall_until(state.pending->ready, GpuUse::recovery);
}

bool is_given_up(const TrainingState& state) {
  return state.losses.has_unnoticed() && !state.metrics.is_over() &&
         state.now > end_of_patience(state);
}

}  // namespace orrery::sim
