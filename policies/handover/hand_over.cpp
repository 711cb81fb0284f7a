#include "policies/handover/hand_over.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr Nanos kHour = 3600 * kNanosPerSecond;
constexpr const char* kModeNames[] = {"drive", "shadow", "approve"};

/// The job that a decision is about, if it is about one.
std::optional<JobId> job_of(const Action& action) {
  return std::visit(
      [](const auto& what) -> std::optional<JobId> {
        if constexpr (requires { what.job; }) return what.job;
        return std::nullopt;
      },
      action);
}

}  // namespace

HandOverMode hand_over_mode(const std::string& name) {
  if (name.empty() || name == "drive") return HandOverMode::drive;
  if (name == "shadow") return HandOverMode::shadow;
  if (name == "approve") return HandOverMode::approve;
  throw Error(ErrorKind::usage, fmt::format("there is no --mode {}: drive, shadow, approve", name));
}

HandOver::HandOver(Backend& inner, HandOverRules rules) : inner_(inner), rules_(std::move(rules)) {
  ensure(rules_.mode != HandOverMode::approve || rules_.approver != nullptr,
         "somebody answers in mode approve");
}

std::optional<Observation> HandOver::next() {
  if (!refused_.empty()) {
    shown_ = std::exchange(refused_, {});
    return Observation{.now = seen_->now, .epoch = seen_->epoch, .sequence = sequence_++,
                       .events = shown_, .devices = {}, .links = {}, .ranks = {},
                       .collectives = {}, .cluster = seen_->cluster, .state = seen_->state,
                       .jobs = seen_->jobs};
  }
  const std::optional<Observation> seen = inner_.next();
  if (!seen) return std::nullopt;
  seen_.emplace(*seen);
  seen_->sequence = sequence_++;
  if (rules_.mode == HandOverMode::shadow) score_.see(*seen_);
  return seen_;
}

void HandOver::apply(std::span<const Decision> decisions, bool at_rest) {
  passed_.clear();
  const bool stopped = rules_.stopped && rules_.stopped();
  if (stopped) close_questions(std::nullopt, "the kill switch is on", stopped_);
  for (const Decision& decision : decisions) {
    if (std::holds_alternative<WakeMe>(decision.what)) {
      passed_.push_back(decision);
    } else if (stopped) {
      refuse(decision.number, "the kill switch is on", stopped_);
    } else {
      consider(decision);
    }
  }
  if (!stopped) take_verdicts();
  for (const Event& event : seen_->events) {
    const auto* done = std::get_if<JobDone>(&event);
    if (done != nullptr) close_questions(done->job, "the job has ended", refused_count_);
  }
  inner_.apply(passed_, at_rest && refused_.empty() && open_.empty());
}

void HandOver::consider(const Decision& decision) {
  if (rules_.mode == HandOverMode::shadow) {
    score_.propose(decision, *seen_);
    return refuse(decision.number, "shadow mode: watched, not applied", watched_);
  }
  if (rules_.mode == HandOverMode::drive) return pass_on(decision);
  rules_.approver->ask(decision, seen_->now);
  open_[decision.number] = {decision, seen_->now};
}

void HandOver::pass_on(Decision decision) {
  while (!passed_at_.empty() && passed_at_.front() <= seen_->now - kHour) passed_at_.pop_front();
  if (rules_.per_hour > 0 && passed_at_.size() >= rules_.per_hour) {
    return refuse(decision.number,
                  fmt::format("the limit of {} decisions an hour is reached", rules_.per_hour),
                  over_limit_);
  }
  passed_at_.push_back(seen_->now);
  ++passed_on_;
  passed_.push_back(std::move(decision));
}

void HandOver::refuse(std::uint64_t decision, std::string reason, std::uint64_t& count) {
  ++count;
  refused_.push_back(DecisionOutcome{decision, Outcome::rejected, std::move(reason)});
}

/// An answer that comes when its step has begun holds from the next one on: what was accepted is
/// the division, not the instant.
void HandOver::take_verdicts() {
  if (rules_.mode != HandOverMode::approve) return;
  for (Verdict& verdict : rules_.approver->verdicts()) {
    auto question = open_.extract(verdict.decision);
    if (question.empty()) continue;  // answered too late, or never asked
    Decision& decision = question.mapped().decision;
    if (!verdict.accepted) {
      std::string reason = verdict.reason.empty() ? "refused" : "refused: " + verdict.reason;
      refuse(decision.number, std::move(reason), refused_count_);
      continue;
    }
    const std::optional<JobId> job = job_of(decision.what);
    const bool begun = job && job->value < seen_->jobs.size() &&
                       question.mapped().asked < seen_->now &&
                       decision.effective_at_step <= seen_->jobs[job->value].step;
    if (begun) decision.effective_at_step = 0;
    pass_on(std::move(decision));
  }
  for (auto each = open_.begin(); each != open_.end();) {
    const auto here = each++;
    if (here->second.asked + rules_.patience > seen_->now) continue;
    refuse(here->first, "nobody answered in time", refused_count_);
    open_.erase(here);
  }
}

void HandOver::close_questions(std::optional<JobId> job, const std::string& reason,
                               std::uint64_t& count) {
  for (auto each = open_.begin(); each != open_.end();) {
    const auto here = each++;
    if (job && job_of(here->second.decision.what) != job) continue;
    refuse(here->first, reason, count);
    open_.erase(here);
  }
}

void HandOver::fill(HandOverReport& report) const {
  report.set_mode(kModeNames[static_cast<std::size_t>(rules_.mode)]);
  report.set_passed_on(passed_on_);
  report.set_only_watched(watched_);
  report.set_refused(refused_count_);
  report.set_over_the_limit(over_limit_);
  report.set_stopped(stopped_);
  if (rules_.mode == HandOverMode::shadow) score_.fill(*report.mutable_shadow());
}

}  // namespace orrery
