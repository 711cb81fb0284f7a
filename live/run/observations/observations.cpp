#include "live/run/observations/observations.hpp"

#include <utility>

#include "policies/record/encoding.hpp"

namespace orrery::live {

void Observations::happen(Event event) {
  world_.apply(event, clock_.now());
  arriving_.push_back(std::move(event));
}

Observation Observations::make(const std::vector<JournalLoss>& losses) {
  events_ = std::exchange(arriving_, {});
  samples_.begin();
  Observation seen = {.now = clock_.now(),
                      .sequence = sequence_++,
                      .events = events_,
                      .cluster = world_.cluster(),
                      .state = world_.state(),
                      .jobs = world_.jobs(),
                      .samples = samples_};
  JournalRecord record;
  encode(seen, *record.mutable_seen()->mutable_observation());
  for (const JournalLoss& loss : losses) *record.mutable_seen()->add_losses() = loss;
  journal_.append(record);
  return seen;
}

void Observations::answered() {
  JournalRecord record;
  *record.mutable_read() = samples_.take_read();
  if (record.read().read_size() > 0) journal_.append(record);
}

}  // namespace orrery::live
