#include "policies/handover/hand_over.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr Nanos kHour = 3600 * kNanosPerSecond;
constexpr const char* kOver = "the run is over";

}  // namespace

HandOverMode hand_over_mode(std::string_view name) {
  if (name.empty()) return HandOverMode::drive;
  if (const auto mode = find_named<HandOverMode>(name)) return *mode;
  throw Error(ErrorKind::usage,
              fmt::format("--mode: expected drive, shadow or approve, found '{}'", name));
}

HandOver::HandOver(Backend& inner, HandOverRules rules) : inner_(inner), rules_(std::move(rules)) {
  set_mode(rules_.mode);
}

void HandOver::set_mode(HandOverMode mode) {
  ensure(mode != HandOverMode::approve || rules_.approver != nullptr,
         "somebody answers in mode approve");
  if (mode != HandOverMode::approve) {
    close_questions(std::nullopt, fmt::format("the mode is now {}", name_of(mode)), refused_count_);
  }
  rules_.mode = mode;
}

/// Refusals are added to the next observation of the inner backend, so that events and world match.
/// apply() requests that observation at the same instant with a wake-up.
std::optional<Observation> HandOver::next() {
  const auto seen = ended_ ? std::optional<Observation>() : inner_.next();
  ended_ = !seen.has_value();
  if (ended_ && refused_.empty()) return std::nullopt;
  if (seen) seen_.emplace(*seen);
  if (seen && rules_.mode == HandOverMode::shadow) score_.add_observation(*seen);
  if (!refused_.empty()) {
    shown_ = std::exchange(refused_, {});
    if (seen) shown_.insert(shown_.end(), seen->events.begin(), seen->events.end());
    seen_->events = shown_;
  }
  seen_->sequence = sequence_++;
  return seen_;
}

void HandOver::apply(const DecisionList& decisions) {
  decided_ = decisions.next();
  passed_.clear();
  for (const Nanos at : decisions.wake_times()) passed_.wake(at);
  passed_.give_up(decisions.given_up());
  const bool stopped = rules_.stopped && rules_.stopped();
  if (stopped) close_questions(std::nullopt, "the kill switch is on", stopped_);
  if (ended_) close_questions(std::nullopt, kOver, refused_count_);
  for (const Decision& decision : decisions.items()) {
    if (stopped) {
      refuse_decision(decision.id, "the kill switch is on", stopped_);
    } else if (ended_) {
      refuse_decision(decision.id, kOver, refused_count_);
    } else {
      judge_decision(decision);
    }
  }
  if (ended_) return;
  if (!stopped) take_verdicts();
  for (const Event& event : seen_->events) {
    const auto* done = std::get_if<JobDone>(&event);
    if (done != nullptr) close_questions(done->job, "the job has ended", refused_count_);
  }
  if (!refused_.empty()) passed_.wake(seen_->now);
  if (decisions.is_resting() && refused_.empty() && open_.empty()) passed_.rest();
  inner_.apply(passed_);
}

void HandOver::judge_decision(const Decision& decision) {
  if (rules_.mode == HandOverMode::shadow) {
    score_.add_proposal(decision, *seen_);
    return refuse_decision(decision.id, "shadow mode: observed, not applied", watched_);
  }
  if (rules_.mode == HandOverMode::drive) return pass_on(decision);
  rules_.approver->request_approval(decision, seen_->now);
  open_[decision.id] = {decision, seen_->now};
}

void HandOver::pass_on(Decision decision) {
  while (!passed_at_.empty() && passed_at_.front() <= seen_->now - kHour) passed_at_.pop_front();
  if (rules_.per_hour > 0 && passed_at_.size() >= rules_.per_hour) {
    return refuse_decision(
        decision.id, fmt::format("the limit of {} decisions an hour is reached", rules_.per_hour),
        over_limit_);
  }
  passed_at_.push_back(seen_->now);
  ++passed_on_;
  passed_.put_decision(std::move(decision));
}

void HandOver::refuse_decision(std::uint64_t decision, std::string reason, std::uint64_t& count) {
  ++count;
  refused_.push_back(Decided{decision, Outcome::rejected, std::move(reason)});
}

/// A decision whose step has begun before the approval takes effect from the next step on, because
/// the operator approved the action and not its instant.
void HandOver::take_verdicts() {
  if (rules_.mode != HandOverMode::approve) return;
  for (Verdict& verdict : rules_.approver->verdicts()) {
    auto question = open_.extract(verdict.decision);
    if (question.empty()) continue;  // answered too late, or never asked
    Decision& decision = question.mapped().decision;
    if (!verdict.accepted) {
      std::string reason = verdict.reason.empty() ? "refused" : "refused: " + verdict.reason;
      refuse_decision(decision.id, std::move(reason), refused_count_);
      if (verdict.unanswered) ++unanswered_;
      continue;
    }
    const JobInfo* job = seen_->jobs.find(job_of(decision.what));
    const bool begun =
        job != nullptr && question.mapped().asked < seen_->now && decision.at_step <= job->step;
    if (begun) decision.at_step = 0;
    pass_on(std::move(decision));
  }
  for (auto each = open_.begin(); each != open_.end();) {
    const auto here = each++;
    if (here->second.asked + rules_.patience > seen_->now) continue;
    refuse_decision(here->first, "no answer came in time", refused_count_);
    ++unanswered_;
    open_.erase(here);
  }
}

void HandOver::close_questions(std::optional<JobId> job, const std::string& reason,
                               std::uint64_t& count) {
  for (auto each = open_.begin(); each != open_.end();) {
    const auto here = each++;
    if (job && job_of(here->second.decision.what) != job) continue;
    refuse_decision(here->first, reason, count);
    if (&count == &refused_count_) ++unanswered_;
    open_.erase(here);
  }
}

std::optional<std::string> HandOver::save() const {
  if (!open_.empty() || !refused_.empty() || ended_) return std::nullopt;
  std::string saved;
  ByteWriter write(saved);
  write(sequence_);
  write(decided_before());
  write(static_cast<std::uint64_t>(passed_at_.size()));
  for (const Nanos at : passed_at_) write(at);
  for (const std::uint64_t count :
       {passed_on_, watched_, refused_count_, over_limit_, stopped_, unanswered_}) {
    write(count);
  }
  score_.save(write);
  return saved;
}

void HandOver::load(std::string_view saved) {
  ByteReader read(saved);
  read(sequence_);
  read(decided_);
  for (std::size_t count = read.size(); count > 0; --count) read(passed_at_.emplace_back());
  for (std::uint64_t* count :
       {&passed_on_, &watched_, &refused_count_, &over_limit_, &stopped_, &unanswered_}) {
    read(*count);
  }
  score_.load(read);
}

void HandOver::fill(HandOverReport& report) const {
  report.set_mode(std::string(name_of(rules_.mode)));
  report.set_passed_on(passed_on_);
  report.set_only_watched(watched_);
  report.set_refused(refused_count_);
  report.set_unanswered(unanswered_);
  report.set_over_the_limit(over_limit_);
  report.set_stopped(stopped_);
  if (rules_.mode == HandOverMode::shadow) score_.fill(*report.mutable_shadow());
}

}  // namespace orrery
