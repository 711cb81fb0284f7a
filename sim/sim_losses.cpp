// The part of SimBackend in which ranks are lost and come back: the step under way is given up, the
// survivors notice and go on, a replacement joins between two steps.
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "sim/sim_backend.hpp"
#include "sim/sim_timeline.hpp"

namespace orrery {
namespace {

constexpr JobId kJob{0};

}  // namespace

/// The step under way will not be committed. Without its network the job ends here; without one of
/// its ranks it may go on.
void SimBackend::die(const PlayedStep& played) {
  const std::optional<LinkId> broken = played.what().run.broken;
  const std::optional<FatalFault> fatal =
      broken ? faults_.cause_of(*broken, step_, now_) : faults_.kill(step_, played.start(), kNever);
  ensure(fatal.has_value(), "a step is cut short by a fault");
  Loss& failure = failures_.emplace_back();
  failure.rank = fatal->rank.value;
  failure.at = now_;
  failure.report.set_time_s(to_seconds(now_));
  failure.report.set_cause(fatal->cause);
  failure.report.set_lost_steps(0);
  if (timeline_) timeline_->instant(now_, fatal->cause);
  if (fatal->killed) return survive(*fatal, played);
  over_ = true;
}

/// The survivors notice, give up the step and will do it again without the rank that was killed.
void SimBackend::survive(const FatalFault& fatal, const PlayedStep& played) {
  faults_.spend(fatal);
  accounts_.discard(played.what());
  const Survival& survival = request_.scenario().survival();
  const Nanos noticed =
      now_ + (fatal.silent ? survival.heartbeat_timeout() : survival.detection());
  within_.emplace_back(noticed, RankLost{.job = kJob, .rank = fatal.rank});
  for (const Decision& decision : std::exchange(held_, {})) {
    within_.emplace_back(noticed, DecisionOutcome{.decision = decision.number,
                                                  .status = Outcome::rejected,
                                                  .reason = "membership has changed"});
  }
  resume_at_ = noticed + survival.regroup();
}

/// After the events of an observation: who is lost since the last one?
void SimBackend::note_losses() {
  for (const Event& event : events_) {
    const auto* lost = std::get_if<RankLost>(&event);
    if (lost == nullptr) continue;
    Loss& failure = failures_.back();
    failure.report.set_detected_s(to_seconds(now_));
    ++epoch_;
    back_at_.erase(lost->rank.value);
    if (!can_go_on(world_.jobs()[kJob.value])) {
      over_ = true;
      return;
    }
    undecided_[lost->rank.value] = failure.at;
    failure.report.set_known_s(to_seconds(now_));
    failure.report.set_working_s(to_seconds(resume_at_));
    accounts_.lose(resume_at_ - failure.at);
  }
}

/// Replacements that are there join between two steps.
void SimBackend::readmit() {
  if (now_ < resume_at_ || over_) return;
  for (auto next = back_at_.begin(); next != back_at_.end();) {
    if (next->second > now_) {
      ++next;
      continue;
    }
    events_.push_back(RankBack{.job = kJob, .rank = {next->first}});
    resume_at_ = now_ + request_.scenario().survival().regroup();
    for (Loss& failure : failures_) {
      if (failure.rank != next->first || failure.report.has_replaced_s()) continue;
      failure.report.set_replaced_s(to_seconds(resume_at_));
    }
    next = back_at_.erase(next);
  }
  if (events_.empty()) return;
  ++epoch_;
  accounts_.lose(resume_at_ - now_);
}

}  // namespace orrery
