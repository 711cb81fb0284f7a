// The part of TrainingRun in which ranks are lost and the job is assigned: the step under way is
// given up, the survivors notice and go on, stand still or are joined by others between two steps.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/training_run.hpp"

namespace orrery {

/// The job's number of a rank by its number as the run began; nothing if it does not work.
std::optional<RankId> TrainingRun::rank_at_home(std::uint32_t home_rank) const {
  const GpuId gpu = home_.at(home_rank);
  std::uint32_t rank = 0;
  for (const GpuRuns::Run& run : job().gpus.runs()) {
    if (gpu.value - run.first < run.count) {
      const RankId found{rank + gpu.value - run.first};
      return job().is_lost(found) ? std::nullopt : std::optional(found);
    }
    rank += run.count;
  }
  return {};
}

/// The ranks that are struck first, at one instant; who is not at work then is struck neither then
/// nor later.
std::vector<FatalFault> TrainingRun::next_losses(Nanos from, Nanos until) const {
  for (;;) {
    std::vector<FatalFault> lost = faults_.losses(step_, from, until);
    const auto absent = std::stable_partition(lost.begin(), lost.end(), [this](const auto& each) {
      return rank_at_home(each.rank.value).has_value();
    });
    std::for_each(absent, lost.end(), [this](const auto& each) { faults_.spend(each); });
    if (absent == lost.begin() && absent != lost.end()) continue;
    lost.erase(absent, lost.end());
    return lost;
  }
}

void TrainingRun::stand_still_until(Nanos at) {
  const Nanos from = std::max(now_, resume_at_);
  if (at <= from) return;
  accounts_.lose(at - from);
  resume_at_ = at;
}

/// Parts of the cluster that are lost or back at `at`.
void TrainingRun::tell_parts(Nanos at) {
  std::set<Part> now = faults_.lost_parts(step_, at);
  for (const Part part : now) {
    if (!lost_parts_.contains(part)) {
      later_.emplace_back(at, PartChanged{part, {.health = Health::lost, .rate = 0}});
    }
  }
  for (const Part part : lost_parts_) {
    if (!now.contains(part)) later_.emplace_back(at, PartChanged{part, {}});
  }
  lost_parts_ = std::move(now);
}

/// The step under way will not be committed. Without its network the job waits for it, or ends here
/// if that does not come back; without some of its ranks it may go on.
void TrainingRun::cut(const PlayedStep& played) {
  const std::optional<LinkId> broken = played.what().run.broken;
  if (!broken) {
    accounts_.discard(played.what());
    return lose(next_losses(played.start(), kNever));
  }
  if (const auto up = faults_.up_again(*broken, step_, now_)) {
    accounts_.discard(played.what());
    tell_parts(*up);
    return stand_still_until(*up);
  }
  const FatalFault fatal = faults_.cause_of(*broken, step_, now_);
  Loss& loss = losses_.emplace_back();
  loss.at = now_;
  loss.report.set_time_s(to_seconds(now_));
  loss.report.set_cause(fatal.cause);
  loss.report.set_lost_steps(0);
  if (timeline_) timeline_->instant(now_, fatal.cause);
  tell_due();
  over_ = true;
  happen_(JobDone{kJob, Ending::failed});
  gate_.job_gone(kJob, now_);
}

/// Who is left notices those that fell silent later than those that died.
void TrainingRun::lose(std::vector<FatalFault> lost) {
  ensure(!lost.empty(), "a step is cut short by a fault");
  tell_parts(now_);
  const Survival& survival = scenario().survival();
  for (const bool silent : {false, true}) {
    std::vector<std::uint32_t> ranks;
    for (const FatalFault& each : lost) {
      if (each.silent != silent) continue;
      faults_.spend(each);
      const RankId rank = *rank_at_home(each.rank.value);
      if (std::find(ranks.begin(), ranks.end(), rank.value) != ranks.end()) continue;
      ranks.push_back(rank.value);
      Loss& loss = losses_.emplace_back();
      loss.ranks = {rank.value};
      loss.at = now_;
      loss.report.set_time_s(to_seconds(now_));
      loss.report.set_cause(each.cause);
      loss.report.set_lost_steps(0);
      if (timeline_) timeline_->instant(now_, each.cause);
      const Nanos noticed =
          now_ + (silent ? survival.heartbeat_timeout() : survival.detection());
      unknown_.emplace_back(noticed, losses_.size() - 1);
      resume_at_ = std::max(resume_at_, noticed + survival.regroup());
    }
  }
}

/// All that are noticed at this instant.
void TrainingRun::know_losses(const std::vector<std::size_t>& noticed) {
  std::vector<RankId> ranks;
  Nanos first = kNever;
  for (const std::size_t each : noticed) {
    Loss& loss = losses_[each];
    loss.report.set_detected_s(to_seconds(now_));
    loss.report.set_known_s(to_seconds(now_));
    loss.report.set_working_s(to_seconds(resume_at_));
    for (const std::uint32_t rank : loss.ranks) ranks.push_back({rank});
    first = std::min(first, loss.at);
  }
  std::sort(ranks.begin(), ranks.end());
  happen_(RanksLost{.job = kJob, .ranks = ranks, .epoch = {job().epoch.value + 1}});
  gate_.membership_changed(kJob);
  accounts_.lose(resume_at_ - first);
  if (saving_) {  // what was being written lacks a part
    SaveDone failed = saving_->done;
    failed.durable = false;
    std::erase_if(later_, [](const auto& each) {
      return std::holds_alternative<SaveDone>(each.second);
    });
    saving_.reset();
    happen_(failed);
  }
  const bool replaced = job().next.has_value() && !transition_;
  if (replaced) {
    transition_ = Transition{*job().next, StateFrom::peer,
                             std::max(now_, first + scenario().survival().replacement())};
  }
  const bool holds = job().now.get<OnLoss>().response == LossResponse::hold;
  const std::uint32_t left = without_lost(job()).layout.data;
  const bool possible =
      can_go_on(job()) && replicas_objection(scenario().job(), left).empty();
  if (holds || !possible) return happen_(JobHeld{kJob});
  refit();
}

/// Nothing of the step under way counts.
void TrainingRun::give_up_step() {
  if (!open_) return;
  std::uint64_t done = 0;
  const StepGraph& graph = fit_->graph();
  for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
    double least = open_->done(replica, 0, now_);
    for (std::uint32_t stage = 1; stage < graph.pipeline(); ++stage) {
      least = std::min(least, open_->done(replica, stage, now_));
    }
    done += static_cast<std::uint64_t>(std::floor(least));
  }
  accounts_.discard(done);
  accounts_.lose(now_ - open_->start());
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
  if (std::holds_alternative<Save>(decision.what)) save_asked_ = true;
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return;
  if (assign->leaves()) {
    give_up_step();
    transition_.reset();
    unknown_.clear();
    step_ = job().saved;
    happen_(JobStopped{kJob, step_});
    gate_.job_gone(kJob, now_);
    circumstances_.reset();
    return;
  }
  const Survival& survival = scenario().survival();
  Nanos ready = now_;
  bool fewer = false;
  for (std::uint32_t rank = 0; const GpuId gpu : job().gpus) {
    fewer = fewer || (!job().is_lost({rank}) && !assign->gpus.contains(gpu));
    ++rank;
  }
  const bool more = std::any_of(assign->gpus.begin(), assign->gpus.end(), [this](GpuId gpu) {
    return !fit_->where().gpus.contains(gpu);
  });
  if (more && job().placed()) {
    // A replacement is there `replacement` after the loss; it is sent for once it is decided.
    ready += losses_.empty() ? survival.replacement()
                             : std::max<Nanos>(0, survival.replacement() - survival.detection());
  }
  if (assign->state == StateFrom::checkpoint) ready = now_ + survival.restart();
  if (fewer) give_up_step();
  // It comes true behind all that was decided with it.
  transition_ = Transition{{assign->gpus, assign->layout}, assign->state, ready};
}

/// An assignment, between two steps.
void TrainingRun::come_true() {
  const Transition transition = *std::exchange(transition_, {});
  const bool waited = !job().placed();
  if (transition.state == StateFrom::checkpoint) {
    if (!losses_.empty()) losses_.back().report.set_lost_steps(step_ - job().saved);
    step_ = job().saved;
  } else if (transition.state == StateFrom::none && !waited) {
    step_ = 0;
  }
  happen_(JobStarted{.job = kJob, .epoch = {job().epoch.value + 1}, .from = step_,
                     .where = transition.where});
  gate_.membership_changed(kJob);
  refit();
  if (!waited) stand_still_until(now_ + scenario().survival().regroup());
  for (Loss& loss : losses_) {
    if (!loss.report.has_replaced_s() && transition.where.layout == home().layout) {
      loss.report.set_replaced_s(to_seconds(resume_at_));
    }
  }
}

}  // namespace orrery
