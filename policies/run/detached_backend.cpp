#include "policies/run/detached_backend.hpp"

#include <utility>

namespace orrery {
namespace {

// Policies that are further behind see several observations as one.
constexpr std::chrono::seconds kMostBehind{1};

}  // namespace

DetachedBackend::DetachedBackend(Backend& inner, PacedRun& paced, std::function<bool()> halted)
    : inner_(inner), paced_(paced), read_switch_(std::move(halted)), reader_(inner.cluster()) {}

std::optional<Observation> DetachedBackend::next() {
  while (queue_.empty() && !again_) {
    if (advance_run() && queue_.empty()) return std::nullopt;
  }
  Unseen unseen;
  if (queue_.empty()) {
    unseen.record.set_now(seen_at_);
    encode(Event{Tick{}}, *unseen.record.add_events());
    unseen.samples.at = seen_at_;
    unseen.halted = halted_;
  } else {
    unseen = pop();
  }
  again_ = false;
  is_deciding_ = true;
  seen_at_ = unseen.record.now();
  halted_ = unseen.halted;
  samples_.add_observation(std::move(unseen.samples));
  return reader_.read(unseen.record, samples_);
}

DetachedBackend::Unseen DetachedBackend::pop() {
  Unseen first = std::move(queue_.front());
  queue_.pop_front();
  if (HostClock::now() - first.since < kMostBehind) return first;
  while (!queue_.empty()) {
    Unseen next = std::move(queue_.front());
    queue_.pop_front();
    samples_.add_observation(std::move(first.samples));
    first.record.mutable_events()->MergeFrom(next.record.events());
    first.record.set_now(next.record.now());
    first.samples = std::move(next.samples);
    first.halted = next.halted;
  }
  return first;
}

void DetachedBackend::apply(const DecisionList& decisions) {
  is_deciding_ = false;
  is_resting_ = decisions.is_resting();
  for (const Nanos at : decisions.wake_times()) {
    if (at <= seen_at_) {
      again_ = true;
    } else {
      wakes_.insert(at);
    }
  }
}

bool DetachedBackend::advance_run() {
  if (ended_) return true;
  if (std::exchange(owes_answer_, false)) {
    DecisionList nothing;
    for (const Nanos at : std::exchange(wakes_, {})) nothing.wake(at);
    if (is_resting_) nothing.rest();
    inner_.apply(nothing);
  }
  if (!paced_.advance_run()) return false;
  const std::optional<Observation> seen = inner_.next();
  if (!seen) return ended_ = true;
  Unseen& unseen = queue_.emplace_back();
  encode(*seen, unseen.record);
  unseen.samples = copy_samples(*seen);
  unseen.halted = read_switch_ && read_switch_();
  unseen.since = HostClock::now();
  owes_answer_ = true;
  return false;
}

}  // namespace orrery
