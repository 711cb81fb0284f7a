#include "policies/queues/availability.hpp"

#include <algorithm>

namespace orrery {

void Availability::reset(Nanos now, std::uint32_t free) { steps_.assign(1, {now, free}); }

void Availability::release(Nanos at, std::uint32_t gpus) {
  const std::uint32_t free = steps_.back().free + gpus;
  if (at <= steps_.back().at) {
    steps_.back().free = free;
  } else {
    steps_.push_back({at, free});
  }
}

std::size_t Availability::step_at(Nanos at) const {
  const auto behind = std::upper_bound(steps_.begin(), steps_.end(), at,
                                       [](Nanos t, const Step& step) { return t < step.at; });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(behind - steps_.begin() - 1, 0));
}

bool Availability::is_free_for(std::uint32_t gpus, Nanos duration, Nanos from) const {
  for (std::size_t i = step_at(from); i < steps_.size() && steps_[i].free >= gpus; ++i) {
    if (i + 1 == steps_.size() || steps_[i + 1].at - from >= duration) return true;
  }
  return false;
}

Nanos Availability::earliest_start(std::uint32_t gpus, Nanos duration, Nanos from) const {
  Nanos begin = kNever;  // begin of the current stretch with enough GPUs
  for (std::size_t i = step_at(from); i < steps_.size(); ++i) {
    const Nanos until = i + 1 < steps_.size() ? steps_[i + 1].at : kNever;
    if (steps_[i].free < gpus) {
      begin = kNever;
      continue;
    }
    if (begin == kNever) begin = std::max(steps_[i].at, from);
    if (until == kNever || until - begin >= duration) return begin;
  }
  return kNever;
}

/// The step that begins at `at`, made if there is none.
std::size_t Availability::split_at(Nanos at) {
  const std::size_t before = step_at(at);  // nothing is reserved before the first
  if (steps_[before].at == at) return before;
  steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(before) + 1,
                {at, steps_[before].free});
  return before + 1;
}

void Availability::reserve(Nanos begin, Nanos end, std::uint32_t gpus) {
  if (begin >= end) return;
  const std::size_t first = split_at(begin), last = split_at(end);
  for (std::size_t i = first; i < last; ++i) steps_[i].free -= gpus;
}

}  // namespace orrery
