#include "live/run/observations/journal_replay.hpp"

#include <algorithm>
#include <iterator>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/units.hpp"
#include "live/run/processes/placement.hpp"

namespace orrery::live {

JournalReplay::JournalReplay(const Cluster& cluster, const Past& past)
    : past_(past), reader_(cluster), under_way_(past.snapshot.has_value()) {
  if (past.first_world) reader_.world() = *past.first_world;
}

void JournalReplay::load_memory(
    const std::function<void(const std::string&, const World&)>& load) {
  if (!past_.snapshot) return;
  ensure(load != nullptr,
         "expected a backend that can restore policies for the journal's snapshot");
  load(past_.snapshot->memory(), world());
}

Observation JournalReplay::next() {
  under_way_ = true;
  samples_.clear();
  if (const auto read = past_.read.find(shown_); read != past_.read.end()) {
    for (const SamplesRead& each : read->second.read()) samples_.add(each);
  }
  const Observation seen = reader_.read(past_.seen[shown_++], samples_);
  for (const Event& event : seen.events) {
    if (const auto* outcome = std::get_if<Decided>(&event)) open_.erase(outcome->decision);
  }
  return seen;
}

void JournalReplay::announce_open(const Decision& decision) {
  world().announce_decision(decision);
  open_[decision.id] = decision;
  decided_ = std::max(decided_, decision.id + 1);
}

bool JournalReplay::is_answered() const {
  const std::size_t newest = shown_ - 1;
  return has_more() || past_.read.contains(newest) || past_.given_up.contains(newest);
}

std::optional<std::string> JournalReplay::compare_answer(const DecisionList& decisions) {
  static const JournalRead kNothing;
  const auto found = past_.read.find(shown_ - 1);
  const JournalRead& answer = found == past_.read.end() ? kNothing : found->second;
  std::vector<Decision> recorded;
  for (const DecisionRecord& record : answer.decisions()) {
    announce_open(recorded.emplace_back(decode(record)));
  }
  const std::vector<Decision>& now = decisions.items();
  const bool is_same = std::equal(
      now.begin(), now.end(), answer.decisions().begin(), answer.decisions().end(),
      [](const Decision& one, const DecisionRecord& other) {
        DecisionRecord record;
        encode(one, record);
        return record.SerializeAsString() == other.SerializeAsString();
      });
  const bool are_wakes_same =
      std::equal(decisions.wake_times().begin(), decisions.wake_times().end(),
                 answer.wakes().begin(), answer.wakes().end());
  if ((is_same && are_wakes_same) || std::exchange(has_differed_, true)) return {};
  const double at = to_seconds(past_.seen[shown_ - 1].now());
  if (is_same) return fmt::format("call at {} s: calls are requested at other instants", at);
  return fmt::format("call at {} s: recorded {}, replayed {}", at, describe_all(recorded),
                     describe_all(now));
}

void JournalReplay::take_answer(const DecisionList& decisions) {
  for (const Decision& decision : decisions.items()) announce_open(decision);
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

std::vector<StepsDone> unseen_steps(const Past& past) {
  const std::vector<JournalCommit>& commits = past.commits;
  const Nanos first = past.snapshot ? past.snapshot->statistics().last_commit() : 0;
  std::size_t seen = 0;
  for (const ObservationRecord& shown : past.seen) {
    seen += static_cast<std::size_t>(
        std::ranges::count_if(shown.events(), &EventRecord::has_steps_done));
  }
  std::vector<StepsDone> unseen;
  for (std::size_t i = seen; i < commits.size(); ++i) {
    const Nanos before = i > 0 ? commits[i - 1].at() : first;
    unseen.push_back({.job = kLiveJob,
                      .last = commits[i].step(),
                      .count = 1,
                      .duration = commits[i].at() - before});
  }
  return unseen;
}

}  // namespace orrery::live
