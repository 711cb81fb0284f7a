#include "policies/queues/availability.hpp"

#include <algorithm>
#include <iterator>

namespace orrery {

void Availability::reset(Nanos now, std::uint32_t free) {
  steps_.assign(1, {now, free});
  forget_starts();
}

void Availability::release(Nanos at, std::uint32_t gpus) {
  forget_starts();
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

Nanos Availability::first_stretch(std::uint32_t gpus, Nanos duration, Nanos from) const {
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

// ---- found starts ---------------------------------------------------------------------------

void Availability::forget_starts() {
  for (auto& [gpus, found] : starts_) found.clear();
}

/// Returns the latest start that was found for a job of at most this size and duration.
Nanos Availability::known_bound(std::uint32_t gpus, Nanos duration) const {
  Nanos bound = steps_.front().at;
  for (const auto& [size, found] : starts_) {
    if (size > gpus) break;
    const auto behind =
        std::upper_bound(found.begin(), found.end(), duration,
                         [](Nanos of, const Found& each) { return of < each.duration; });
    if (behind != found.begin()) bound = std::max(bound, std::prev(behind)->start);
  }
  return bound;
}

void Availability::remember_start(std::uint32_t gpus, const Found& found) {
  auto size = std::lower_bound(
      starts_.begin(), starts_.end(), gpus,
      [](const FoundStarts& each, std::uint32_t of) { return each.first < of; });
  if (size == starts_.end() || size->first != gpus) size = starts_.insert(size, {gpus, {}});
  std::vector<Found>& all = size->second;
  const auto first =
      std::lower_bound(all.begin(), all.end(), found.duration,
                       [](const Found& each, Nanos of) { return each.duration < of; });
  if (first != all.begin() && std::prev(first)->start >= found.start) return;
  const auto last = std::find_if(first, all.end(),
                                 [&](const Found& each) { return each.start > found.start; });
  if (first == last) {
    all.insert(first, found);
  } else {
    *first = found;
    all.erase(std::next(first), last);
  }
}

Nanos Availability::earliest_start(std::uint32_t gpus, Nanos duration, Nanos from) {
  const Nanos bound = known_bound(gpus, duration);
  if (bound == kNever) return kNever;
  const Nanos start = first_stretch(gpus, duration, std::max(from, bound));
  if (from <= steps_.front().at) remember_start(gpus, {duration, start});
  return start;
}

// ---- reservations ---------------------------------------------------------------------------

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
