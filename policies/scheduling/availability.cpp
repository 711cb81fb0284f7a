#include "policies/scheduling/availability.hpp"

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

Nanos Availability::earliest(std::uint32_t gpus, Nanos duration, Nanos from) const {
  Nanos begin = kNever;  // of the stretch under way in which there are enough
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Nanos until = i + 1 < steps_.size() ? steps_[i + 1].at : kNever;
    if (until <= from) continue;
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
std::size_t Availability::split(Nanos at) {
  const auto behind = std::upper_bound(steps_.begin(), steps_.end(), at,
                                       [](Nanos t, const Step& step) { return t < step.at; });
  const std::size_t index = static_cast<std::size_t>(behind - steps_.begin());
  const Step before = steps_[index - 1];  // nothing is reserved before the first
  if (before.at == at) return index - 1;
  steps_.insert(behind, {at, before.free});
  return index;
}

void Availability::reserve(Nanos begin, Nanos end, std::uint32_t gpus) {
  if (begin >= end) return;
  const std::size_t first = split(begin), last = split(end);
  for (std::size_t i = first; i < last; ++i) steps_[i].free -= gpus;
}

}  // namespace orrery
