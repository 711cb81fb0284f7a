#include "sim/jobs/training_standing.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "policies/seam/job_lifecycle.hpp"

namespace orrery::sim {
namespace {

/// Not all of the GPUs are among those that work `here`.
bool takes_others(const Assign& assign, const GpuRuns& here) {
  return assign.gpus != here && std::any_of(assign.gpus.begin(), assign.gpus.end(),
                                            [&here](GpuId gpu) { return !here.contains(gpu); });
}

}  // namespace

void TrainingStanding::place_initially(const JobStarted& start) {
  if (start.where != parts_.fits.home()) {
    parts_.fits.begin_at(start.where);
    parts_.faults.update_gpu_numbers();
  }
  parts_.books.begin(now());
  parts_.here.emit_event(start);
  renew_spares(now());
}

/// Lets a process wait on each of the first free and healthy GPUs that stay, `survival.warm` in
/// all. A process that has to be started waits from `ready` on.
void TrainingStanding::renew_spares(Nanos ready) {
  if (survival().warm() == 0) return;
  const ClusterState& state = parts_.here.world().state();
  std::map<GpuId, Nanos> spares;
  for (std::uint32_t i = 0; i < state.owner.size() && spares.size() < survival().warm(); ++i) {
    const GpuId gpu{i};
    const NodeId node = parts_.here.cluster().node_of(gpu);
    const bool free = state.owner[i] == ClusterState::kNobody && state.is_healthy(gpu, node);
    if (!free || state.is_to_be_removed(gpu, node)) continue;
    const auto known = warm_.find(gpu);
    spares[gpu] = known != warm_.end() ? known->second : ready;
  }
  warm_ = std::move(spares);
}

void TrainingStanding::continue_from_world() {
  renew_spares(now());
  if (parts_.fits.number_gpus(job().gpus)) parts_.faults.update_gpu_numbers();  // it may have moved
  if (job().next) {
    const auto saved = job().saved_at > 0 ? StateFrom::checkpoint : StateFrom::none;
    transition_ = Transition{*job().next, job().is_restarting ? saved : StateFrom::peer,
                             now() + survival().replacement()};
  }
  refit_job();
}

/// Fits the job to the working replicas.
void TrainingStanding::refit_job() {
  auto [where, ranks] = working_part(job());
  if (where.gpus.empty()) return;
  parts_.fits.move_to(where, std::move(ranks));
  parts_.next.leave_step();
}

void TrainingStanding::stall_until(Nanos at, GpuUse use) {
  parts_.books.time().advance_to(now());
  parts_.books.time().stall_until(at, use);
  resume_at_ = std::max(resume_at_, at);
}

bool TrainingStanding::can_begin_step() const {
  return job().phase == JobPhase::running && now() >= resume_at_;
}

Nanos TrainingStanding::next_event_time() const {
  Nanos stop = kNever;
  const bool idle = parts_.steps.is_idle();
  const bool to_come = transition_ || job().phase == JobPhase::running;
  if (idle && now() < resume_at_ && to_come) stop = resume_at_;
  if (transition_ && (transition_->ready > now() || idle)) {
    stop = std::min(stop, std::max(transition_->ready, resume_at_));
  }
  stop = std::min({stop, parts_.losses.next_noticed(), parts_.losses.next_suspected()});
  if (const auto fault = next_idle_event()) stop = std::min(stop, *fault);
  return stop;
}

// ---- losses -----------------------------------------------------------------------------------

/// It stands still and will work again: who stands still dies as who works does.
bool TrainingStanding::is_idle() const {
  if (!parts_.books.has_started() || parts_.books.is_over() || !parts_.steps.is_idle())
    return false;
  if (!job().is_placed()) return false;
  return now() < resume_at_ || transition_ || parts_.losses.has_unnoticed();
}

/// Returns the next change of the cluster while no step is in progress.
std::optional<Nanos> TrainingStanding::next_idle_event() const {
  const bool waits = parts_.books.has_started() && !parts_.books.is_over() &&
                     parts_.steps.is_idle() &&
                     (job().phase == JobPhase::held || job().phase == JobPhase::waiting);
  if (!is_idle() && !waits) return {};
  return std::as_const(parts_.faults).plan().next_instant(now(), end_of_patience());
}

Nanos TrainingStanding::end_of_patience() const {
  return estimates::end_of_patience(parts_.books.last_progress());
}

/// Ranks are lost faster than they recover.
bool TrainingStanding::is_given_up() const {
  return parts_.losses.has_unnoticed() && !parts_.books.is_over() && now() > end_of_patience();
}

void TrainingStanding::apply_faults_between_steps() {
  if (!parts_.books.has_started() || parts_.books.is_over() || !parts_.steps.is_idle()) return;
  if (is_idle()) {
    if (job().is_restarting) delay_restart();
    const auto lost = parts_.faults.next_losses({}, now(), now() + 1);
    if (!lost.empty()) return lose_ranks(lost);
  }
  if (parts_.faults.plan().has_change_at(now()))
    parts_.faults.note_parts(parts_.steps.step(), now());
}

/// A process that is lost while it starts on healthy hardware is started again, which is no loss of
/// a rank.
void TrainingStanding::delay_restart() {
  if (!transition_) return;
  const auto struck =
      parts_.faults.drain_starting_losses(transition_->where.gpus, parts_.steps.step(), now());
  if (!struck) return;
  const Nanos noticed = *struck ? survival().heartbeat_timeout() : survival().detection();
  transition_->ready = std::max(transition_->ready, now() + noticed + survival().restart());
  parts_.books.time().stall_until(transition_->ready, GpuUse::recovery);
}

/// Without its network the job waits for it, or ends here if that does not come back; without some
/// of its ranks it may go on.
bool TrainingStanding::cut_step(const estimates::PlayedStep& played) {
  const std::optional<LinkId> broken = played.what().run.broken;
  const Step step = parts_.steps.step();
  if (!broken) {
    parts_.books.discard_work(played.what());
    lose_ranks(parts_.faults.next_losses(step, played.start(), kNever));
    return true;
  }
  if (const auto up = parts_.faults.plan().up_again(*broken, step, now())) {
    parts_.books.discard_work(played.what());
    parts_.faults.note_parts(step, *up);
    stall_until(*up, GpuUse::recovery);
    return true;
  }
  const estimates::FatalFault fatal = parts_.faults.plan().cause_of(*broken, step, now());
  parts_.losses.record_job_loss(fatal.cause, now());
  if (parts_.timeline != nullptr) parts_.timeline->instant(now(), fatal.cause);
  return false;
}

/// The remaining ranks detect silent ranks later than dead ones.
void TrainingStanding::lose_ranks(const std::vector<estimates::FatalFault>& lost) {
  ensure(!lost.empty(), "a step is cut short by a fault");
  TimeLedger& time = parts_.books.time();
  time.interrupt_at(now());
  parts_.saving.spoil_current();
  parts_.next.leave_contention();
  parts_.faults.note_parts(parts_.steps.step(), now());
  for (const bool silent : {false, true}) {
    for (const estimates::FatalFault& each : lost) {
      if (each.silent != silent) continue;
      parts_.faults.plan().mark_spent(each);
      const std::optional<RankId> rank = parts_.faults.rank_at_work(each.rank.value);
      if (!rank) continue;  // already lost by another fault of this instant
      const Nanos noticed =
          now() + (silent ? survival().heartbeat_timeout() : survival().detection());
      // Live mode suspects a rank that is silent for half of the timeout.
      const Nanos suspected = silent ? now() + survival().heartbeat_timeout() / 2 : kNever;
      parts_.losses.record_death(*rank, each.cause, now(), noticed, suspected);
      if (parts_.timeline != nullptr) parts_.timeline->instant(now(), each.cause);
      resume_at_ = std::max(resume_at_, noticed + survival().regroup());
    }
  }
  time.stall_until(parts_.losses.all_noticed(now()), GpuUse::detection);
  time.stall_until(resume_at_, GpuUse::recovery);
}

void TrainingStanding::fail_saving() {
  for (SaveDone& failed : parts_.saving.abandon_saves()) {
    parts_.here.emit_event(std::move(failed));
  }
}

void TrainingStanding::notice_losses() {
  if (auto suspects = parts_.losses.new_suspects(now())) {
    parts_.here.emit_event(RanksSuspected{parts_.here.id(), std::move(*suspects)});
  }
  const Losses::Noticed noticed = parts_.losses.drain_noticed(now(), resume_at_);
  if (noticed.ranks.empty()) return;
  const JobId id = parts_.here.id();
  parts_.here.emit_event(loss_of(job(), noticed.ranks));
  parts_.here.gate().expire_settings(id);
  fail_saving();
  const std::uint32_t left = without_lost(job()).layout.data;
  const AfterLoss after =
      after_loss(job(), replicas_objection(parts_.here.scenario().job(), left).empty());
  if (after.is_assigned && !transition_) {
    transition_ = Transition{*job().next, StateFrom::peer,
                             std::max(now(), noticed.first + survival().replacement())};
  }
  if (after.held) return parts_.here.emit_event(JobHeld{id});
  refit_job();
}

/// Holds the job until it is assigned again; a pending assignment becomes void.
void TrainingStanding::hold_job() {
  transition_.reset();
  parts_.here.emit_event(JobHeld{parts_.here.id()});
}

// ---- assignments ------------------------------------------------------------------------------

void TrainingStanding::release_gpus() {
  parts_.steps.abandon_step();
  parts_.steps.tell_committed();
  fail_saving();
  transition_.reset();
  parts_.losses.forget_unnoticed();
  parts_.books.time().interrupt_at(now());
  parts_.steps.roll_back_to(job().saved);
  const JobId id = parts_.here.id();
  parts_.here.emit_event(JobStopped{id, parts_.steps.step()});
  parts_.here.gate().reject_decisions(id, now());
  parts_.next.leave_step();
}

/// A replacement is there `replacement` after the loss; it is sent for once it is decided.
Nanos TrainingStanding::ready_for(const Assign& assign) const {
  const bool anew = assign.state == StateFrom::none && job().is_placed();
  if (anew || assign.state == StateFrom::checkpoint) return now() + survival().restart();
  if (!job().is_placed() || !takes_others(assign, parts_.fits.now()->where().gpus)) return now();
  const std::vector<GpuId> starts = orders_of(job(), assign).start;
  const bool warm = std::all_of(starts.begin(), starts.end(), [this](GpuId gpu) {
    const auto spare = warm_.find(gpu);
    return spare != warm_.end() && spare->second <= now();
  });
  if (warm) return now() + survival().warm_join();
  if (!parts_.losses.has_losses()) return now() + survival().replacement();
  return now() + std::max<Nanos>(0, survival().replacement() - survival().detection());
}

void TrainingStanding::assign_gpus(const Assign& assign) {
  const Nanos ready = ready_for(assign);
  const bool restarts_running_job = job().is_restarting && job().phase == JobPhase::running;
  if (orders_of(job(), assign).abandons_step) parts_.steps.abandon_step();
  if (job().is_restarting) parts_.losses.forget_unnoticed();
  if (restarts_running_job) {
    parts_.steps.tell_committed();
    fail_saving();
    parts_.next.leave_contention();
    parts_.here.emit_event(JobHeld{parts_.here.id()});
  }
  // It comes true behind all that was decided with it.
  transition_ = Transition{{assign.gpus, assign.layout}, assign.state, ready, restarts_running_job};
  if (!parts_.books.has_started() || !parts_.steps.is_idle()) return;
  parts_.books.time().interrupt_at(now());
  parts_.books.time().stall_until(ready, GpuUse::recovery);
}

/// If its hardware has broken meanwhile, who works waits for it working; who stands still is
/// assigned anew.
void TrainingStanding::change_between_steps() {
  if (!transition_ || now() < transition_->ready || now() < resume_at_) return;
  if (parts_.faults.are_parts_healthy(transition_->where.gpus)) {
    return activate_assignment(*std::exchange(transition_, {}));
  }
  auto next = parts_.faults.plan().next_instant(now(), end_of_patience());
  if (const Nanos report = parts_.faults.next_event_time(); report < next.value_or(kNever)) {
    next = report;
  }
  const bool held = job().phase == JobPhase::held && !transition_->restarts_running_job;
  if (job().is_placed() && (!next || held)) return hold_job();
  if (!next) return transition_.reset();
  transition_->ready = *next;
}

void TrainingStanding::activate_assignment(const Transition& transition) {
  parts_.steps.tell_committed();
  const bool waited = !job().is_placed();
  if (transition.state != StateFrom::peer && !waited) fail_saving();
  if (transition.state == StateFrom::checkpoint) {
    parts_.losses.record_rollback(parts_.steps.step() - job().saved);
    parts_.steps.roll_back_to(job().saved);
  } else if (transition.state == StateFrom::none && !waited) {
    parts_.steps.roll_back_to(0);
  }
  const JobStarted start = start_of(job(), parts_.steps.step(), transition.where);
  parts_.books.has_started() ? parts_.here.emit_event(start) : place_initially(start);
  parts_.here.gate().expire_settings(parts_.here.id());
  if (parts_.fits.number_gpus(transition.where.gpus)) parts_.faults.update_gpu_numbers();
  refit_job();
  renew_spares(now() + survival().replacement());
  if (!waited) stall_until(now() + survival().regroup(), GpuUse::recovery);
  if (transition.where.layout != parts_.fits.initial_fit()->where().layout) return;
  parts_.losses.mark_replaced(resume_at_);
}

}  // namespace orrery::sim
