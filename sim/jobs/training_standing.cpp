// The part of TrainingRun in which ranks are lost and the job is assigned: the step under way is
// given up, the survivors notice and go on, stand still or are joined by others between two steps.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/jobs/training_run.hpp"

namespace orrery {

void TrainingRun::go_on(const Past& past) {
  here_.submitted_as({0});  // a log that a run goes on from has one job
  submitted_ = true;
  now_ = past.now();
  const JobInfo* const known = here_.world().jobs().find(here_.id());
  books_.go_on(past, known == nullptr || known->phase == JobPhase::done);
  if (books_.over()) return;
  step_ = job().step;
  faults_.know_parts();
  // A rank that was lost in the step under way has been struck by what strikes at this step.
  for (const FatalFault& fault : faults_.plan().losses(step_, now_, now_ + 1)) {
    const auto rank = faults_.rank_at_work(fault.rank.value);
    if (!rank || past.lost_in_step().contains(*rank)) faults_.plan().spend(fault);
  }
  if (job().next) {
    transition_ =
        Transition{*job().next, StateFrom::peer, now_ + scenario().survival().replacement()};
  }
  refit();
  if (past.lost_in_step().empty()) open_since(past);
}

/// The step that was under way where the past ends began with the commit before it.
void TrainingRun::open_since(const Past& past) {
  if (past.steps().empty() || job().phase != JobPhase::running || books_.last_commit() == now_)
    return;
  const Nanos now = std::exchange(now_, books_.last_commit());
  enter_circumstances();
  open_step();
  if (open_->end() <= now) open_.reset();  // it was longer than it would be here
  now_ = now;
  std::vector<Event> told;  // already
  faults_.take_news(now, told);
}

void TrainingRun::stand_still_until(Nanos at, GpuUse use) {
  books_.time().pass(now_);
  books_.time().stand_still(at, use);
  resume_at_ = std::max(resume_at_, at);
}

/// It stands still and will work again: who stands still dies as who works does.
bool TrainingRun::at_rest() const {
  if (!books_.started() || books_.over() || open_ || stretch_ || !job().placed()) return false;
  return now_ < resume_at_ || transition_ || losses_.unnoticed();
}

/// When something of the cluster changes while no step is under way.
std::optional<Nanos> TrainingRun::next_at_rest() const {
  const bool held =
      books_.started() && !books_.over() && !open_ && !stretch_ && job().phase == JobPhase::held;
  if (!at_rest() && !held) return {};
  return faults_.plan().next_instant(now_);
}

void TrainingRun::strike_at_rest() {
  if (!books_.started() || books_.over() || open_ || stretch_) return;
  if (at_rest()) {
    if (auto lost = faults_.next_losses({}, now_, now_ + 1); !lost.empty())
      return lose(std::move(lost));
  }
  if (faults_.plan().changes_at(now_)) faults_.note_parts(step_, now_);
}

/// The step under way will not be committed. Without its network the job waits for it, or ends here
/// if that does not come back; without some of its ranks it may go on.
void TrainingRun::cut(const PlayedStep& played) {
  const std::optional<LinkId> broken = played.what().run.broken;
  if (!broken) {
    books_.discard(played.what());
    return lose(faults_.next_losses(step_, played.start(), kNever));
  }
  if (const auto up = faults_.plan().up_again(*broken, step_, now_)) {
    books_.discard(played.what());
    faults_.note_parts(step_, *up);
    return stand_still_until(*up, GpuUse::recovery);
  }
  const FatalFault fatal = faults_.plan().cause_of(*broken, step_, now_);
  losses_.end(fatal.cause, now_);
  if (timeline_) timeline_->instant(now_, fatal.cause);
  tell_due();
  end_steps();
  here_.happen(JobDone{here_.id(), Ending::failed});
  here_.gate().job_gone(here_.id(), now_);
}

/// Who is left notices those that fell silent later than those that died.
void TrainingRun::lose(std::vector<FatalFault> lost) {
  ensure(!lost.empty(), "a step is cut short by a fault");
  books_.time().interrupt(now_);
  saving_.spoil();
  next_.stand_still();
  faults_.note_parts(step_, now_);
  const Survival& survival = scenario().survival();
  for (const bool silent : {false, true}) {
    for (const FatalFault& each : lost) {
      if (each.silent != silent) continue;
      faults_.plan().spend(each);
      const std::optional<RankId> rank = faults_.rank_at_work(each.rank.value);
      if (!rank) continue;  // by another one of this instant
      const Nanos noticed = now_ + (silent ? survival.heartbeat_timeout() : survival.detection());
      losses_.strike(*rank, each.cause, now_, noticed);
      if (timeline_) timeline_->instant(now_, each.cause);
      resume_at_ = std::max(resume_at_, noticed + survival.regroup());
    }
  }
  books_.time().stand_still(losses_.all_noticed(now_), GpuUse::detection);
  books_.time().stand_still(resume_at_, GpuUse::recovery);
}

void TrainingRun::fail_saving() {
  if (const auto failed = saving_.give_up()) here_.happen(*failed);
}

/// All that are noticed at this instant.
void TrainingRun::know_losses(const Losses::Noticed& noticed) {
  here_.happen(
      RanksLost{.job = here_.id(), .ranks = noticed.ranks, .epoch = {job().epoch.value + 1}});
  here_.gate().membership_changed(here_.id());
  fail_saving();
  const bool replaced = job().next.has_value() && !transition_;
  if (replaced) {
    transition_ = Transition{*job().next, StateFrom::peer,
                             std::max(now_, noticed.first + scenario().survival().replacement())};
  }
  const bool holds = job().now.get<OnLoss>().response == LossResponse::hold;
  const std::uint32_t left = without_lost(job()).layout.data;
  const bool possible = can_go_on(job()) && replicas_objection(scenario().job(), left).empty();
  if (holds || !possible) return here_.happen(JobHeld{here_.id()});
  refit();
}

/// Until it is assigned anew: what it had been assigned cannot be.
void TrainingRun::hold() {
  transition_.reset();
  here_.happen(JobHeld{here_.id()});
}

/// Nothing of the step under way counts.
void TrainingRun::give_up_step() {
  if (!open_) return;
  std::uint64_t done = 0;
  const StepGraph& graph = fit().graph();
  for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
    double least = open_->done(replica, 0, now_);
    for (std::uint32_t stage = 1; stage < graph.pipeline(); ++stage) {
      least = std::min(least, open_->done(replica, stage, now_));
    }
    done += static_cast<std::uint64_t>(std::floor(least));
  }
  books_.discard(done);
  books_.time().lose_step(open_->start(), now_, graph.ranks());
  open_.reset();
}

std::string TrainingRun::refusal(const Decision& decision) const {
  if (const auto* assign = std::get_if<Assign>(&decision.what); assign && !assign->leaves()) {
    std::string why = replicas_objection(scenario().job(), assign->layout.data);
    if (!why.empty()) return why;
  }
  return fabric_refusal(scenario(), decision);
}

void TrainingRun::carry_out(const Decision& decision, Nanos now) {
  now_ = now;
  if (std::holds_alternative<Save>(decision.what)) saving_.ask();
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return;
  if (assign->leaves()) {
    give_up_step();
    tell_steps();
    fail_saving();
    transition_.reset();
    losses_.forget_unnoticed();
    books_.time().interrupt(now_);
    books_.roll_back(step_, job().saved);
    step_ = job().saved;
    here_.happen(JobStopped{here_.id(), step_});
    here_.gate().job_gone(here_.id(), now_);
    next_.leave();
    return;
  }
  const Survival& survival = scenario().survival();
  Nanos ready = now_;
  bool fewer = false;
  const JobInfo& before = job();
  const bool in_place = assign->gpus == before.gpus;
  for (std::uint32_t rank = 0; const GpuId gpu : in_place ? GpuRuns() : before.gpus) {
    fewer = fewer || (!before.is_lost({rank}) && !assign->gpus.contains(gpu));
    ++rank;
  }
  const GpuRuns& here = fit().where().gpus;
  const bool more =
      assign->gpus != here && std::any_of(assign->gpus.begin(), assign->gpus.end(),
                                          [&here](GpuId gpu) { return !here.contains(gpu); });
  if (more && job().placed()) {
    // A replacement is there `replacement` after the loss; it is sent for once it is decided.
    ready += losses_.any() ? std::max<Nanos>(0, survival.replacement() - survival.detection())
                           : survival.replacement();
  }
  const bool anew = assign->state == StateFrom::none && job().placed();
  if (anew || assign->state == StateFrom::checkpoint) ready = now_ + survival.restart();
  if (fewer) give_up_step();
  // It comes true behind all that was decided with it.
  transition_ = Transition{{assign->gpus, assign->layout}, assign->state, ready};
  if (!books_.started() || open_ || stretch_) return;
  books_.time().interrupt(now_);
  books_.time().stand_still(ready, GpuUse::recovery);
}

/// An assignment, between two steps. If its hardware has broken meanwhile, who works waits for it
/// working; who stands still is assigned anew.
void TrainingRun::come_true() {
  if (!faults_.parts_are_well(transition_->where.gpus)) {
    const auto next = faults_.plan().next_instant(now_);
    if (job().placed() && (!next || job().phase == JobPhase::held)) return hold();
    if (!next) return transition_.reset();
    transition_->ready = *next;
    return;
  }
  tell_steps();
  const Transition transition = *std::exchange(transition_, {});
  const bool waited = !job().placed();
  if (transition.state != StateFrom::peer && !waited) fail_saving();
  if (transition.state == StateFrom::checkpoint) {
    losses_.rolled_back(step_ - job().saved);
    books_.roll_back(step_, job().saved);
    step_ = job().saved;
  } else if (transition.state == StateFrom::none && !waited) {
    books_.roll_back(step_, 0);
    step_ = 0;
  }
  const JobStarted start{.job = here_.id(),
                         .epoch = {job().epoch.value + 1},
                         .from = step_,
                         .where = transition.where};
  books_.started() ? here_.happen(start) : come_home(start);
  here_.gate().membership_changed(here_.id());
  if (fits_.number(transition.where.gpus)) faults_.numbered();
  refit();
  if (!waited) stand_still_until(now_ + scenario().survival().regroup(), GpuUse::recovery);
  if (transition.where.layout != fits_.begun()->where().layout) return;
  losses_.replaced(resume_at_);
}

}  // namespace orrery
