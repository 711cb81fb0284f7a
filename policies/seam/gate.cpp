#include "policies/seam/gate.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace orrery {
namespace {

constexpr const char* kChanged = "membership has changed";

/// Returns true if the decision must be applied between two steps: all ranks need the same setting
/// in a step, and a decision with a first step must not change or abandon the current step.
bool between_steps(const Decision& decision) {
  return waits_for_step(decision.what) || decision.at_step > 0;
}

}  // namespace

// ---- judging ------------------------------------------------------------------------------

DecisionGate::Verdict DecisionGate::judge_decision(const Decision& decision, Nanos now) const {
  return judge_group({&decision, 1}, now);
}

DecisionGate::Verdict DecisionGate::judge_group(std::span<const Decision> group,
                                                Nanos now) const {
  for (const Decision& decision : group) {
    if (decision.expires < now) {
      return {Outcome::expired,
              fmt::format("it expired at {} s", to_seconds(decision.expires))};
    }
    const JobInfo* job = world_.jobs().find(job_of(decision.what));
    if (decision.if_epoch && job != nullptr && job->epoch != *decision.if_epoch) {
      return {Outcome::expired, kChanged};
    }
  }
  auto [which, why] = world_.objection(group);
  if (!why.empty()) return {Outcome::rejected, std::move(why)};
  for (const Decision& decision : group) {
    const auto* configure = std::get_if<Configure>(&decision.what);
    if (!offered_.actions.has(decision.what)) {
      return {Outcome::rejected,
              fmt::format("{} is not carried out in this run", action_name(decision.what))};
    }
    if (configure != nullptr && !offered_.settings.has(configure->what)) {
      return {Outcome::rejected,
              fmt::format("{} cannot be set in this run", setting_name(configure->what))};
    }
    if (why = carrier_.refusal(decision); !why.empty()) return {Outcome::rejected, std::move(why)};
  }
  if (!closed_.empty()) return {Outcome::rejected, closed_};
  return {};
}

/// Returns true if the first step of the decision's effect is in progress already.
bool DecisionGate::has_begun(const Decision& decision) const {
  const JobId job = job_of(decision.what);
  return decision.at_step > 0 && decision.at_step == world_.jobs()[job].step &&
         carrier_.is_step_open(job);
}

// ---- accepting ----------------------------------------------------------------------------

void DecisionGate::accept_decisions(const DecisionList& decisions, Nanos now) {
  for (const Nanos at : decisions.wake_times()) wakes_.insert(std::max(at, now));
  for (const Decision& decision : decisions.items()) world_.announce_decision(decision);
  resume_decisions(decisions.items(), now);
}

void DecisionGate::resume_decisions(const std::vector<Decision>& items, Nanos now) {
  std::set<std::uint32_t> groups;
  for (const Decision& decision : items) {
    if (decision.group == 0) {
      admit_decision(decision, now);
    } else if (groups.insert(decision.group).second) {
      std::vector<Decision> group;
      std::copy_if(items.begin(), items.end(), std::back_inserter(group),
                   [&](const Decision& each) { return each.group == decision.group; });
      accept_group(std::move(group), now);
    }
  }
}

void DecisionGate::accept_group(std::vector<Decision> group, Nanos now) {
  Verdict verdict = judge_group(group, now);
  if (verdict.good() && std::any_of(group.begin(), group.end(), between_steps)) {
    verdict = {Outcome::rejected, "decisions of a group are applied at once, not from a step on"};
  }
  for (const Decision& decision : group) emit_outcome(decision, verdict);
  if (!verdict.good()) return;
  for (const Decision& decision : group) carrier_.carry_out(decision);
}

void DecisionGate::admit_decision(const Decision& decision, Nanos now) {
  Verdict verdict = judge_decision(decision, now);
  if (verdict.good() && has_begun(decision) && between_steps(decision)) {
    verdict = {Outcome::rejected, fmt::format("step {} has begun", decision.at_step)};
  }
  if (!verdict.good()) return emit_outcome(decision, std::move(verdict));
  if (agreement_ && waits_for_step(decision.what)) return unagreed_.push_back(decision);
  if (is_deferred(decision)) return held_.push_back(decision);
  hold_from_now(decision);
}

void DecisionGate::apply_agreed(const Decision& decision, Nanos now) {
  if (is_deferred(decision)) return held_.push_back(decision);
  settle_decision(decision, now);
}

/// A setting that changes steps and applies at once is deferred while a step is in progress. An
/// assignment or checkpoint is deferred until its step. A setting with a step is not deferred:
/// World stores the value for that step.
bool DecisionGate::is_deferred(const Decision& decision) const {
  const JobId id = job_of(decision.what);
  const JobInfo* job = world_.jobs().find(id);
  if (job == nullptr) return false;
  if (std::holds_alternative<Configure>(decision.what)) {
    return decision.at_step == 0 && waits_for_step(decision.what) && carrier_.is_step_open(id);
  }
  return decision.at_step > job->step;
}

void DecisionGate::expire_decision(const Decision& decision) {
  emit_outcome(decision, {Outcome::expired, kChanged});
}

/// The checks are repeated because the state of the job may have changed since the first check.
void DecisionGate::settle_decision(const Decision& decision, Nanos now) {
  Verdict verdict = judge_decision(decision, now);
  if (verdict.good() && has_begun(decision) && between_steps(decision)) {
    verdict = {Outcome::rejected, fmt::format("step {} has begun", decision.at_step)};
  }
  if (!verdict.good()) return emit_outcome(decision, std::move(verdict));
  hold_from_now(decision);
}

void DecisionGate::hold_from_now(const Decision& decision) {
  emit_outcome(decision, {});
  const JobId job = job_of(decision.what);
  if (decision.at_step > world_.jobs()[job].step) effects_.emplace(job, decision.at_step);
  carrier_.carry_out(decision);
}

void DecisionGate::emit_outcome(const Decision& decision, Verdict verdict) {
  carrier_.emit_event(Decided{decision.id, verdict.status, std::move(verdict.reason)});
}

// ---- progress of jobs ---------------------------------------------------------------------

void DecisionGate::settle_deferred(JobId job, Nanos now) {
  const JobInfo* info = world_.jobs().find(job);
  const Step step = info == nullptr ? kNoStep : info->step;
  effects_.erase(effects_.lower_bound({job, 0}), effects_.lower_bound({job, step}));
  std::vector<Decision> waiting;
  for (Decision& decision : std::exchange(held_, {})) {
    const bool due = job_of(decision.what) == job && decision.at_step <= step;
    (due ? waiting : held_).push_back(std::move(decision));
  }
  for (const Decision& decision : waiting) settle_decision(decision, now);
}

void DecisionGate::expire_settings(JobId job) {
  std::vector<Decision> dropped;
  for (std::vector<Decision>* list : {&held_, &unagreed_}) {
    const auto first = std::stable_partition(list->begin(), list->end(), [job](const auto& each) {
      return job_of(each.what) != job || !waits_for_step(each.what);
    });
    std::move(first, list->end(), std::back_inserter(dropped));
    list->erase(first, list->end());
  }
  for (const Decision& decision : dropped) expire_decision(decision);
}

void DecisionGate::reject_decisions(JobId job, Nanos now) {
  effects_.erase(effects_.lower_bound({job, 0}), effects_.upper_bound({job, kNoStep}));
  std::vector<Decision> theirs;
  for (auto* list : {&held_, &unagreed_}) {
    const auto first = std::stable_partition(
        list->begin(), list->end(),
        [job](const Decision& each) { return job_of(each.what) != job; });
    std::move(first, list->end(), std::back_inserter(theirs));
    list->erase(first, list->end());
  }
  for (const Decision& decision : theirs) {
    Verdict verdict = judge_decision(decision, now);
    if (verdict.good()) verdict = {Outcome::rejected, fmt::format("job {} has left", job.value)};
    emit_outcome(decision, std::move(verdict));
  }
}

void DecisionGate::close(const std::string& reason) {
  closed_ = reason;
  for (const Decision& decision : std::exchange(held_, {})) {
    emit_outcome(decision, {Outcome::rejected, reason});
  }
  for (const Decision& decision : std::exchange(unagreed_, {})) {
    emit_outcome(decision, {Outcome::rejected, reason});
  }
}

Step DecisionGate::next_effect(JobId job, Step step) const {
  const auto effect = effects_.upper_bound({job, step});
  Step next = effect != effects_.end() && effect->first == job ? effect->second : kNoStep;
  for (const Decision& decision : held_) {
    if (job_of(decision.what) == job && decision.at_step > step) {
      next = std::min(next, decision.at_step);
    }
  }
  return next;
}

bool DecisionGate::has_waiting(JobId job) const {
  return std::any_of(held_.begin(), held_.end(),
                     [job](const Decision& each) { return job_of(each.what) == job; });
}

bool DecisionGate::pop_due_wakes(Nanos now) {
  const auto end = wakes_.upper_bound(now);
  const bool due = end != wakes_.begin();
  wakes_.erase(wakes_.begin(), end);
  return due;
}

}  // namespace orrery
