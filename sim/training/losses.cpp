#include "sim/training/losses.hpp"

#include <algorithm>

namespace orrery::sim {

Losses::Loss& Losses::add(const std::string& cause, Nanos now) {
  Loss& loss = losses_.emplace_back();
  loss.at = now;
  loss.report.set_time_s(to_seconds(now));
  loss.report.set_cause(cause);
  loss.report.set_lost_steps(0);
  return loss;
}

void Losses::record_death(RankId rank, const std::string& cause, Nanos now, Nanos noticed,
                          Nanos suspected, std::optional<Nanos> restart,
                          std::optional<Nanos> replacement) {
  Loss& loss = add(cause, now);
  loss.rank = rank;
  loss.suspected = suspected;
  loss.restart = restart;
  loss.replacement = replacement;
  unnoticed_.emplace_back(noticed, losses_.size() - 1);
}

void Losses::record_job_loss(const std::string& cause, Nanos now) { add(cause, now); }

bool Losses::is_undetected(RankId rank) const {
  return std::any_of(unnoticed_.begin(), unnoticed_.end(),
                     [&](const auto& each) { return losses_[each.second].rank == rank; });
}

Nanos Losses::restart_time(Nanos usual) const {
  std::optional<Nanos> longest;
  for (auto loss = losses_.rbegin(); loss != losses_.rend(); ++loss) {
    if (loss->report.has_resumed_s()) break;
    longest = std::max(longest.value_or(0), loss->restart.value_or(usual));
  }
  return longest.value_or(usual);
}

Nanos Losses::replacement_time(Nanos usual) const {
  std::optional<Nanos> longest;
  for (std::size_t loss = replaced_; loss < losses_.size(); ++loss) {
    longest = std::max(longest.value_or(0), losses_[loss].replacement.value_or(usual));
  }
  return longest.value_or(usual);
}

Nanos Losses::next_suspected(Nanos now) const {
  Nanos next = kNever;
  for (const auto& [at, which] : unnoticed_) {
    if (losses_[which].suspected > now) next = std::min(next, losses_[which].suspected);
  }
  return next;
}

std::vector<RankId> Losses::silent_ranks(Nanos now) const {
  std::vector<RankId> silent;
  for (const auto& [at, which] : unnoticed_) {
    if (losses_[which].suspected <= now) silent.push_back(*losses_[which].rank);
  }
  return silent;
}

Nanos Losses::next_noticed() const {
  Nanos next = kNever;
  for (const auto& [at, loss] : unnoticed_) next = std::min(next, at);
  return next;
}

Nanos Losses::all_noticed(Nanos now) const {
  Nanos last = now;
  for (const auto& [at, loss] : unnoticed_) last = std::max(last, at);
  return last;
}

Losses::Noticed Losses::drain_noticed(Nanos now, Nanos working) {
  Noticed noticed;
  for (const auto& [at, which] : unnoticed_) {
    if (at > now) continue;
    Loss& loss = losses_[which];
    loss.report.set_detected_s(to_seconds(now));
    loss.report.set_known_s(to_seconds(now));
    loss.report.set_working_s(to_seconds(working));
    noticed.ranks.push_back(*loss.rank);
    noticed.first = std::min(noticed.first, loss.at);
  }
  std::erase_if(unnoticed_, [now](const auto& each) { return each.first <= now; });
  std::sort(noticed.ranks.begin(), noticed.ranks.end());
  return noticed;
}

/// The newest ones are open.
void Losses::mark_resumed(Nanos now) {
  for (auto loss = losses_.rbegin(); loss != losses_.rend(); ++loss) {
    if (loss->report.has_resumed_s()) break;
    loss->report.set_resumed_s(to_seconds(now));
  }
}

bool Losses::has_resumed() const {
  return losses_.empty() || losses_.back().report.has_resumed_s();
}

void Losses::mark_replaced(Nanos now) {
  for (; replaced_ < losses_.size(); ++replaced_) {
    losses_[replaced_].report.set_replaced_s(to_seconds(now));
  }
}

void Losses::record_rollback(Step steps) {
  if (!losses_.empty()) losses_.back().report.set_lost_steps(steps);
}

std::string Losses::newest_cause() const {
  return losses_.empty() ? "" : losses_.back().report.cause();
}

void Losses::fill(Report& report) const {
  for (const Loss& loss : losses_) *report.add_failures() = loss.report;
}

}  // namespace orrery::sim
