#include "live/run/observations/journal_replay.hpp"

#include <iterator>
#include <variant>

#include "live/run/processes/placement.hpp"

namespace orrery::live {

Observation JournalReplay::next() {
  under_way_ = true;
  samples_.clear();
  if (const auto read = past_.read.find(shown_); read != past_.read.end()) {
    for (const SamplesRead& each : read->second.read()) samples_.add(each);
  }
  const Observation seen = reader_.read(past_.seen[shown_++], samples_);
  for (const Event& event : seen.events) {
    if (std::holds_alternative<StepsDone>(event)) ++steps_seen_;
    if (const auto* outcome = std::get_if<Decided>(&event)) open_.erase(outcome->decision);
  }
  return seen;
}

void JournalReplay::record_answer(const DecisionList& decisions) {
  for (const Decision& decision : decisions.items()) {
    world().announce_decision(decision);
    open_[decision.id] = decision;
  }
}

bool JournalReplay::is_halted() const {
  const auto after = past_.halted.upper_bound(shown_);
  return after != past_.halted.begin() && std::prev(after)->second;
}

std::string JournalReplay::given_up() const {
  if (shown_ == 0) return {};
  const auto reason = past_.given_up.find(shown_ - 1);
  return reason == past_.given_up.end() ? std::string() : reason->second;
}

std::vector<Decision> JournalReplay::take_open() {
  std::vector<Decision> open;
  for (auto& [id, decision] : std::exchange(open_, {})) open.push_back(std::move(decision));
  return open;
}

std::vector<StepsDone> JournalReplay::unseen_steps() const {
  const std::vector<JournalCommit>& commits = past_.commits;
  const Nanos first = past_.snapshot ? past_.snapshot->statistics().last_commit() : 0;
  std::vector<StepsDone> unseen;
  for (std::size_t i = steps_seen_; i < commits.size(); ++i) {
    const Nanos before = i > 0 ? commits[i - 1].at() : first;
    unseen.push_back({.job = kLiveJob,
                      .last = commits[i].step(),
                      .count = 1,
                      .duration = commits[i].at() - before});
  }
  return unseen;
}

}  // namespace orrery::live
