#include "live/run/observations/observations.hpp"

#include <utility>

#include "policies/record/encoding.hpp"

namespace orrery::live {

void Observations::add_event(Event event) {
  world_.apply(event, clock_.now());
  arriving_.push_back(std::move(event));
}

Observation Observations::next_observation(const std::vector<JournalLoss>& losses) {
  events_ = std::exchange(arriving_, {});
  samples_.begin();
  Observation seen = {.now = clock_.now(),
                      .sequence = journal_.state().sequence,
                      .events = events_,
                      .cluster = world_.cluster(),
                      .state = world_.state(),
                      .jobs = world_.jobs(),
                      .samples = samples_};
  JournalRecord record;
  encode(seen, *record.mutable_seen()->mutable_observation());
  for (const JournalLoss& loss : losses) *record.mutable_seen()->add_losses() = loss;
  journal_.append_record(record);
  return seen;
}

void Observations::record_answer(const DecisionList& decisions) {
  JournalRecord record;
  JournalRead& answer = *record.mutable_read();
  answer = samples_.take_read();
  for (const Decision& decision : decisions.items()) encode(decision, *answer.add_decisions());
  answer.mutable_wakes()->Add(decisions.wake_times().begin(), decisions.wake_times().end());
  const int parts = answer.read_size() + answer.decisions_size() + answer.wakes_size();
  if (parts > 0) journal_.append_record(record);
}

}  // namespace orrery::live
