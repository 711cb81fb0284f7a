#include "live/run/checkpoints/save_events.hpp"

#include "live/run/processes/placement.hpp"

namespace orrery::live {

void SaveEvents::on_commit(Step next, Nanos now) {
  if (checkpoints_.planned() > 0) since_[{checkpoints_.planned_tier(), next}] = now;
  checkpoints_.on_commit();
}

std::vector<SaveDone> SaveEvents::drain_events(Nanos now) {
  std::vector<SaveDone> events;
  for (RunCheckpoints::Outcome& done : checkpoints_.drain_outcomes()) {
    const auto since = since_.extract({done.tier, done.step});
    events.push_back({.job = kLiveJob,
                      .step = done.step,
                      .tier = done.tier,
                      .stalled = 0,
                      .took = since.empty() ? 0 : now - since.mapped(),
                      .durable = done.whole,
                      .holders = std::move(done.holders)});
  }
  return events;
}

}  // namespace orrery::live
