#include "policies/seam/gate.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

namespace orrery {
namespace {

constexpr const char* kChanged = "membership has changed";

/// Returns true if the decision must be applied between two steps: all ranks need the same setting
/// in a step, and a decision with a first step must not change or abandon the current step.
bool between_steps(const Decision& decision) {
  return waits_for_step(decision.what) || decision.at_step > 0;
}

/// Returns true if one of the decisions assigns GPUs to the job of the setting.
bool assigns(const std::vector<Decision>& decisions, const Decision& setting) {
  return std::any_of(decisions.begin(), decisions.end(), [&setting](const Decision& each) {
    const auto* assign = std::get_if<Assign>(&each.what);
    return assign && !assign->is_release() && assign->job == job_of(setting.what);
  });
}

/// Returns true for an assignment outside of groups, which is a unit of its own.
bool is_lone_assignment(const Decision& decision) {
  return decision.group == 0 && std::holds_alternative<Assign>(decision.what);
}

}  // namespace

// ---- judging ------------------------------------------------------------------------------

DecisionGate::Verdict DecisionGate::judge_group(std::span<const Decision> group, Nanos now) const {
  for (const Decision& decision : group) {
    if (decision.expires < now) {
      return {Outcome::expired, fmt::format("it expired at {} s", to_seconds(decision.expires))};
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

/// Checks a single decision; a step that has begun matters only to a decision that must be applied
/// between two steps and does not wait for another epoch.
DecisionGate::Verdict DecisionGate::judge_single(const Decision& decision, Nanos now) const {
  Verdict verdict = judge_group({&decision, 1}, now);
  if (!verdict.good() || !between_steps(decision) || !has_begun(decision)) return verdict;
  if (world_.starts_with_assignment(decision)) return verdict;
  return {Outcome::rejected, fmt::format("step {} has begun", decision.at_step)};
}

// ---- accepting ----------------------------------------------------------------------------

void DecisionGate::accept_decisions(const DecisionList& decisions, Nanos now) {
  for (const Nanos at : decisions.wake_times()) wakes_.insert(std::max(at, now));
  for (const Decision& decision : decisions.items()) world_.announce_decision(decision);
  resume_decisions(decisions.items(), now);
}

/// Returns true if settings of the same call are checked after this assignment: they start with it,
/// or are refused because the job is to leave at once.
bool DecisionGate::leads_settings(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr || world_.jobs().find(assign->job) == nullptr) return false;
  return !assign->is_release() || !is_deferred(decision);
}

/// A setting belongs to the last assignment of its job before it in its call; without one, to the
/// first assignment after it.
std::list<DecisionGate::Unit> DecisionGate::divide_into_units(
    const std::vector<Decision>& items) const {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> leader(items.size(), kNone);
  const auto find_leaders = [&](const std::vector<std::size_t>& order) {
    std::map<JobId, std::size_t> newest;
    for (const std::size_t i : order) {
      const JobId job = job_of(items[i].what);
      if (leads_settings(items[i])) newest[job] = i;
      if (leader[i] != kNone || items[i].group != 0 || !world_.waits_for_epoch(items[i].what)) {
        continue;
      }
      const auto found = newest.find(job);
      const bool together =
          found != newest.end() && world_.is_same_call(items[i].id, items[found->second].id);
      if (together) leader[i] = found->second;
    }
  };
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  find_leaders(order);
  std::reverse(order.begin(), order.end());
  find_leaders(order);

  std::list<Unit> units;
  std::vector<Unit*> unit_of(items.size());
  std::map<std::uint32_t, Unit*> groups;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (leader[i] != kNone) continue;
    const auto known = groups.find(items[i].group);
    unit_of[i] = known != groups.end() ? known->second : &units.emplace_back();
    unit_of[i]->core.push_back(items[i]);
    if (items[i].group != 0) groups.emplace(items[i].group, unit_of[i]);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (leader[i] != kNone) unit_of[leader[i]]->settings.push_back(items[i]);
  }
  return units;
}

/// Assignments alone, as those of queue policies, need no units: nothing is copied.
void DecisionGate::resume_decisions(const std::vector<Decision>& items, Nanos now) {
  if (std::all_of(items.begin(), items.end(), is_lone_assignment)) {
    for (const Decision& decision : items) {
      if (is_deferred(decision)) {
        admit_decision({{decision}, {}}, now);
      } else {
        settle_decision(decision, {}, now);
      }
    }
    return;
  }
  std::list<Unit> units = divide_into_units(items);
  for (; !units.empty(); units.pop_front()) {
    Unit& unit = units.front();
    const bool grouped = unit.core.front().group != 0;
    std::vector<Decision> left =
        grouped ? accept_group(unit, now) : admit_decision(std::move(unit), now);
    for (Decision& setting : left) place_left_setting(std::move(setting), units);
  }
}

/// Places a setting of the first unit, whose assignment was refused: the setting belongs to the
/// next assignment of its job; without one, it becomes a unit, ordered by id.
void DecisionGate::place_left_setting(Decision setting, std::list<Unit>& units) const {
  const auto before = [](DecisionId id, const Decision& each) { return id < each.id; };
  const auto first = std::next(units.begin());
  const auto next = std::find_if(first, units.end(), [&](const Unit& later) {
    return std::any_of(later.core.begin(), later.core.end(), [&](const Decision& each) {
      return job_of(each.what) == job_of(setting.what) && leads_settings(each) &&
             world_.is_same_call(each.id, setting.id);
    });
  });
  if (next != units.end()) {
    const auto place =
        std::upper_bound(next->settings.begin(), next->settings.end(), setting.id, before);
    next->settings.insert(place, std::move(setting));
    return;
  }
  const auto place = std::find_if(first, units.end(), [&](const Unit& later) {
    return before(setting.id, later.core.front());
  });
  units.insert(place, Unit{{std::move(setting)}, {}});
}

std::vector<Decision> DecisionGate::accept_group(const Unit& unit, Nanos now) {
  const auto follows = [&unit](const Decision& setting) {
    return std::holds_alternative<Configure>(setting.what) && assigns(unit.core, setting);
  };
  const auto waits = [&](const Decision& each) {
    const bool starts = follows(each) || world_.starts_with_assignment(each);
    return each.at_step > 0 || (waits_for_step(each.what) && !starts);
  };
  Verdict verdict = judge_group(unit.core, now);
  if (verdict.good() && std::any_of(unit.core.begin(), unit.core.end(), waits)) {
    verdict = {Outcome::rejected, "decisions of a group are applied at once, not from a step on"};
  }
  // World lets a setting start with its assignment only after the assignment is applied.
  std::vector<Decision> ordered = unit.core;
  std::stable_partition(ordered.begin(), ordered.end(), std::not_fn(follows));
  for (const Decision& decision : ordered) emit_outcome(decision, verdict);
  if (!verdict.good()) return unit.settings;
  const std::vector<Decision> started = apply_settings(unit.settings, now);
  for (const Decision& decision : unit.core) carrier_.carry_out(decision);
  for (const Decision& setting : started) carrier_.carry_out(setting);
  return {};
}

std::vector<Decision> DecisionGate::admit_decision(Unit unit, Nanos now) {
  const Decision& decision = unit.core.front();
  Verdict verdict = judge_single(decision, now);
  if (!verdict.good()) {
    emit_outcome(decision, std::move(verdict));
    return std::move(unit.settings);
  }
  const bool alone = !world_.starts_with_assignment(decision);
  // A job on hold that has lost all ranks has nobody who could agree.
  const JobInfo& job = world_.jobs()[job_of(decision.what)];
  const bool has_ranks = job.gpus.size() > job.lost.size();
  if (agreement_ && has_ranks && alone && waits_for_step(decision.what)) {
    unagreed_.push_back(decision);
    return {};
  }
  if (!is_deferred(decision)) {
    hold_from_now(decision, unit.settings, now);
    return {};
  }
  std::erase_if(unit.settings, [&](const Decision& setting) {
    Verdict with_assignment = judge_group(std::array{decision, setting}, now);
    if (with_assignment.good()) return false;
    emit_outcome(setting, std::move(with_assignment));
    return true;
  });
  held_.push_back(std::move(unit));
  return {};
}

void DecisionGate::apply_agreed(const Decision& decision, Nanos now) {
  if (is_deferred(decision)) return held_.push_back({{decision}, {}});
  settle_decision(decision, {}, now);
}

/// A setting that changes steps and applies at once is deferred while a step is in progress. An
/// assignment or checkpoint is deferred until its step. A setting with a step is not deferred:
/// World stores the value for that step.
bool DecisionGate::is_deferred(const Decision& decision) const {
  const JobId id = job_of(decision.what);
  const JobInfo* job = world_.jobs().find(id);
  if (job == nullptr) return false;
  if (std::holds_alternative<Configure>(decision.what)) {
    if (world_.starts_with_assignment(decision)) return false;
    return decision.at_step == 0 && waits_for_step(decision.what) && carrier_.is_step_open(id);
  }
  return decision.at_step > job->step;
}

void DecisionGate::expire_decision(const Decision& decision) {
  emit_outcome(decision, {Outcome::expired, kChanged});
}

/// The checks are repeated because the state of the job may have changed since the first check.
/// Settings that were to start with an assignment fail with it.
void DecisionGate::settle_decision(const Decision& decision, const std::vector<Decision>& settings,
                                   Nanos now) {
  const Verdict verdict = judge_single(decision, now);
  if (verdict.good()) return hold_from_now(decision, settings, now);
  emit_outcome(decision, verdict);
  for (const Decision& setting : settings) emit_outcome(setting, verdict);
}

void DecisionGate::hold_from_now(const Decision& decision, const std::vector<Decision>& settings,
                                 Nanos now) {
  apply_decision(decision);
  const std::vector<Decision> started = apply_settings(settings, now);
  carrier_.carry_out(decision);
  for (const Decision& setting : started) carrier_.carry_out(setting);
}

/// Checks settings after their assignment is applied, and returns those that are applied.
std::vector<Decision> DecisionGate::apply_settings(const std::vector<Decision>& settings,
                                                   Nanos now) {
  std::vector<Decision> applied;
  for (const Decision& setting : settings) {
    Verdict verdict = judge_single(setting, now);
    if (!verdict.good()) {
      emit_outcome(setting, std::move(verdict));
      continue;
    }
    apply_decision(setting);
    applied.push_back(setting);
  }
  return applied;
}

void DecisionGate::apply_decision(const Decision& decision) {
  emit_outcome(decision, {});
  const JobId job = job_of(decision.what);
  if (decision.at_step > world_.jobs()[job].step) effects_.emplace(job, decision.at_step);
}

void DecisionGate::emit_outcome(const Decision& decision, Verdict verdict) {
  carrier_.emit_event(Decided{decision.id, verdict.status, std::move(verdict.reason)});
}

// ---- progress of jobs ---------------------------------------------------------------------

void DecisionGate::settle_deferred(JobId job, Nanos now) {
  const JobInfo* info = world_.jobs().find(job);
  const Step step = info == nullptr ? kNoStep : info->step;
  effects_.erase(effects_.lower_bound({job, 0}), effects_.lower_bound({job, step}));
  std::vector<Unit> waiting;
  for (Unit& unit : std::exchange(held_, {})) {
    const Decision& decision = unit.core.front();
    const bool due = job_of(decision.what) == job && decision.at_step <= step;
    (due ? waiting : held_).push_back(std::move(unit));
  }
  for (Unit& unit : waiting) {
    // The settings start with the epoch of the assignment, also if their own step is past.
    for (Decision& setting : unit.settings) {
      if (setting.at_step <= step) setting.at_step = 0;
    }
    settle_decision(unit.core.front(), unit.settings, now);
  }
}

void DecisionGate::expire_settings(JobId job) {
  for (const Decision& decision : drain_pending([job](const Decision& each) {
         return job_of(each.what) == job && waits_for_step(each.what);
       })) {
    expire_decision(decision);
  }
}

/// Removes the deferred and undrained decisions that `chosen` names, with the settings that start
/// with them, and returns them.
std::vector<Decision> DecisionGate::drain_pending(
    const std::function<bool(const Decision&)>& chosen) {
  std::vector<Decision> drained;
  for (Unit& unit : std::exchange(held_, {})) {
    if (!chosen(unit.core.front())) {
      held_.push_back(std::move(unit));
      continue;
    }
    drained.push_back(std::move(unit.core.front()));
    std::move(unit.settings.begin(), unit.settings.end(), std::back_inserter(drained));
  }
  for (Decision& decision : std::exchange(unagreed_, {})) {
    (chosen(decision) ? drained : unagreed_).push_back(std::move(decision));
  }
  return drained;
}

void DecisionGate::reject_decisions(JobId job, Nanos now) {
  effects_.erase(effects_.lower_bound({job, 0}), effects_.upper_bound({job, kNoStep}));
  for (const Decision& decision :
       drain_pending([job](const Decision& each) { return job_of(each.what) == job; })) {
    Verdict verdict = judge_group({&decision, 1}, now);
    if (verdict.good()) verdict = {Outcome::rejected, fmt::format("job {} has left", job.value)};
    emit_outcome(decision, std::move(verdict));
  }
}

void DecisionGate::close(const std::string& reason) {
  closed_ = reason;
  for (const Decision& decision : drain_pending([](const Decision&) { return true; })) {
    emit_outcome(decision, {Outcome::rejected, reason});
  }
}

Step DecisionGate::next_effect(JobId job, Step step) const {
  const auto effect = effects_.upper_bound({job, step});
  Step next = effect != effects_.end() && effect->first == job ? effect->second : kNoStep;
  for (const Unit& unit : held_) {
    const Decision& decision = unit.core.front();
    if (job_of(decision.what) == job && decision.at_step > step) {
      next = std::min(next, decision.at_step);
    }
  }
  return next;
}

bool DecisionGate::has_waiting(JobId job) const {
  return std::any_of(held_.begin(), held_.end(),
                     [job](const Unit& each) { return job_of(each.core.front().what) == job; });
}

bool DecisionGate::pop_due_wakes(Nanos now) {
  const auto end = wakes_.upper_bound(now);
  const bool due = end != wakes_.begin();
  wakes_.erase(wakes_.begin(), end);
  return due;
}

}  // namespace orrery
