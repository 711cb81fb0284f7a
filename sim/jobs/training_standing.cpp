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
  steps_.go_on(past.now(), 0);
  const JobInfo* const known = here_.world().jobs().find(here_.id());
  books_.go_on(past, known == nullptr || known->phase == JobPhase::done);
  if (books_.over()) return;
  steps_.go_on(past.now(), job().step);
  faults_.know_parts();
  // A rank that was lost in the step under way has been struck by what strikes at this step.
  for (const FatalFault& fault :
       faults_.plan().losses(steps_.step(), steps_.now(), steps_.now() + 1)) {
    const auto rank = faults_.rank_at_work(fault.rank.value);
    if (!rank || past.lost_in_step().contains(*rank)) faults_.plan().spend(fault);
  }
  if (job().next) {
    transition_ = Transition{*job().next, StateFrom::peer,
                             steps_.now() + scenario().survival().replacement()};
  }
  refit();
  if (past.lost_in_step().empty()) open_since(past);
}

/// The step that was under way where the past ends began with the commit before it.
void TrainingRun::open_since(const Past& past) {
  if (past.steps().empty() || job().phase != JobPhase::running ||
      books_.last_commit() == steps_.now())
    return;
  steps_.reopen(books_.last_commit());
}

void TrainingRun::stand_still_until(Nanos at, GpuUse use) {
  books_.time().pass(steps_.now());
  books_.time().stand_still(at, use);
  resume_at_ = std::max(resume_at_, at);
}

/// It stands still and will work again: who stands still dies as who works does.
bool TrainingRun::at_rest() const {
  if (!books_.started() || books_.over() || !steps_.idle() || !job().placed()) return false;
  return steps_.now() < resume_at_ || transition_ || losses_.unnoticed();
}

/// When something of the cluster changes while no step is under way.
std::optional<Nanos> TrainingRun::next_at_rest() const {
  const bool held =
      books_.started() && !books_.over() && steps_.idle() && job().phase == JobPhase::held;
  if (!at_rest() && !held) return {};
  return faults_.plan().next_instant(steps_.now());
}

void TrainingRun::strike_at_rest() {
  if (!books_.started() || books_.over() || !steps_.idle()) return;
  if (at_rest()) {
    if (auto lost = faults_.next_losses({}, steps_.now(), steps_.now() + 1); !lost.empty())
      return lose(std::move(lost));
  }
  if (faults_.plan().changes_at(steps_.now())) faults_.note_parts(steps_.step(), steps_.now());
}

/// The step under way will not be committed. Without its network the job waits for it, or ends here
/// if that does not come back; without some of its ranks it may go on.
void TrainingRun::cut(const PlayedStep& played) {
  const std::optional<LinkId> broken = played.what().run.broken;
  if (!broken) {
    books_.discard(played.what());
    return lose(faults_.next_losses(steps_.step(), played.start(), kNever));
  }
  if (const auto up = faults_.plan().up_again(*broken, steps_.step(), steps_.now())) {
    books_.discard(played.what());
    faults_.note_parts(steps_.step(), *up);
    return stand_still_until(*up, GpuUse::recovery);
  }
  const FatalFault fatal = faults_.plan().cause_of(*broken, steps_.step(), steps_.now());
  losses_.end(fatal.cause, steps_.now());
  if (timeline_) timeline_->instant(steps_.now(), fatal.cause);
  end(Ending::failed);
}

/// Who is left notices those that fell silent later than those that died.
void TrainingRun::lose(std::vector<FatalFault> lost) {
  ensure(!lost.empty(), "a step is cut short by a fault");
  books_.time().interrupt(steps_.now());
  saving_.spoil();
  next_.stand_still();
  faults_.note_parts(steps_.step(), steps_.now());
  const Survival& survival = scenario().survival();
  for (const bool silent : {false, true}) {
    for (const FatalFault& each : lost) {
      if (each.silent != silent) continue;
      faults_.plan().spend(each);
      const std::optional<RankId> rank = faults_.rank_at_work(each.rank.value);
      if (!rank) continue;  // by another one of this instant
      const Nanos noticed =
          steps_.now() + (silent ? survival.heartbeat_timeout() : survival.detection());
      losses_.strike(*rank, each.cause, steps_.now(), noticed);
      if (timeline_) timeline_->instant(steps_.now(), each.cause);
      resume_at_ = std::max(resume_at_, noticed + survival.regroup());
    }
  }
  books_.time().stand_still(losses_.all_noticed(steps_.now()), GpuUse::detection);
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
    transition_ =
        Transition{*job().next, StateFrom::peer,
                   std::max(steps_.now(), noticed.first + scenario().survival().replacement())};
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

std::string TrainingRun::refusal(const Decision& decision) const {
  if (const auto* assign = std::get_if<Assign>(&decision.what); assign && !assign->leaves()) {
    std::string why = replicas_objection(scenario().job(), assign->layout.data);
    if (!why.empty()) return why;
  }
  return fabric_refusal(scenario(), decision);
}

void TrainingRun::carry_out(const Decision& decision, Nanos now) {
  steps_.pass_to(now);
  if (std::holds_alternative<Save>(decision.what)) saving_.ask();
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return;
  if (assign->leaves()) {
    steps_.give_up();
    tell_steps();
    fail_saving();
    transition_.reset();
    losses_.forget_unnoticed();
    books_.time().interrupt(steps_.now());
    steps_.roll_back_to(job().saved);
    here_.happen(JobStopped{here_.id(), steps_.step()});
    here_.gate().job_gone(here_.id(), steps_.now());
    next_.leave();
    return;
  }
  const Survival& survival = scenario().survival();
  Nanos ready = steps_.now();
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
  if (anew || assign->state == StateFrom::checkpoint) ready = steps_.now() + survival.restart();
  if (fewer) steps_.give_up();
  // It comes true behind all that was decided with it.
  transition_ = Transition{{assign->gpus, assign->layout}, assign->state, ready};
  if (!books_.started() || !steps_.idle()) return;
  books_.time().interrupt(steps_.now());
  books_.time().stand_still(ready, GpuUse::recovery);
}

/// An assignment, between two steps. If its hardware has broken meanwhile, who works waits for it
/// working; who stands still is assigned anew.
void TrainingRun::come_true() {
  if (!faults_.parts_are_well(transition_->where.gpus)) {
    const auto next = faults_.plan().next_instant(steps_.now());
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
    losses_.rolled_back(steps_.step() - job().saved);
    steps_.roll_back_to(job().saved);
  } else if (transition.state == StateFrom::none && !waited) {
    steps_.roll_back_to(0);
  }
  const JobStarted start{.job = here_.id(),
                         .epoch = {job().epoch.value + 1},
                         .from = steps_.step(),
                         .where = transition.where};
  books_.started() ? here_.happen(start) : come_home(start);
  here_.gate().membership_changed(here_.id());
  if (fits_.number(transition.where.gpus)) faults_.numbered();
  refit();
  if (!waited) stand_still_until(steps_.now() + scenario().survival().regroup(), GpuUse::recovery);
  if (transition.where.layout != fits_.begun()->where().layout) return;
  losses_.replaced(resume_at_);
}

}  // namespace orrery
