#include "traces/scenario/power_schedule.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/error.hpp"
#include "topologies/power.hpp"

namespace orrery {
namespace {

[[noreturn]] void fail(const std::string& place, const char* message) {
  throw Error(ErrorKind::bad_input, fmt::format("{}: {}", place, message));
}

void check_times(const PowerLimit& limit, const std::string& place) {
  if (limit.has_until() && limit.until() <= limit.from()) {
    fail(place, "expected 'until' after 'from', found an earlier time");
  }
  if (!limit.has_every()) return;
  if (!limit.has_until()) fail(place, "expected 'until' beside 'every', found no end");
  if (limit.every() < limit.until() - limit.from()) {
    fail(place, "expected 'every' at least as long as the limit, found a shorter time");
  }
}

}  // namespace

bool PowerSchedule::Window::is_active(Nanos now) const {
  if (now < from) return false;
  const Nanos since = now - from;
  return (every == kNever ? since : since % every) < length;
}

Nanos PowerSchedule::Window::next_change(Nanos now) const {
  if (now < from) return from;
  const Nanos since = now - from;
  if (every == kNever) return length < kNever - from && since < length ? from + length : kNever;
  const Nanos begin = now - since % every;
  return since % every < length && length < every ? begin + length : begin + every;
}

PowerSchedule::PowerSchedule(const google::protobuf::RepeatedPtrField<PowerLimit>& limits,
                             const Cluster& cluster, const char* path) {
  for (int i = 0; i < limits.size(); ++i) {
    const PowerLimit& limit = limits[i];
    check_times(limit, fmt::format("{}[{}]", path, i));
    Window window{.from = limit.from(),
                  .limit = limit.limit_case() == PowerLimit::kPower
                               ? Watts{limit.power()}
                               : full_power(cluster) * limit.share()};
    if (limit.has_until()) window.length = limit.until() - limit.from();
    if (limit.has_every()) window.every = limit.every();
    windows_.push_back(window);
  }
}

std::optional<Watts> PowerSchedule::limit_at(Nanos now) const {
  std::optional<Watts> lowest;
  for (const Window& window : windows_) {
    if (!window.is_active(now)) continue;
    if (!lowest || window.limit < *lowest) lowest = window.limit;
  }
  return lowest;
}

Nanos PowerSchedule::next_change(Nanos now) const {
  Nanos next = kNever;
  for (const Window& window : windows_) next = std::min(next, window.next_change(now));
  return next;
}

std::optional<Watts> PowerSchedule::lowest() const {
  std::optional<Watts> lowest;
  for (const Window& window : windows_) {
    if (!lowest || window.limit < *lowest) lowest = window.limit;
  }
  return lowest;
}

Nanos PowerSchedule::settled_time(Nanos now, int rounds) const {
  constexpr Nanos kFar = kNever / 4;  // keeps sums in range
  Nanos settled = now, longest = 0;
  for (const Window& window : windows_) {
    settled = std::max(settled, window.from);
    if (window.every < kFar) longest = std::max(longest, window.every);
    if (window.every == kNever && window.length < kFar) {
      settled = std::max(settled, window.from + window.length);
    }
  }
  return rounds > 0 && longest > kFar / rounds ? kNever
                                               : std::min(kFar, settled) + longest * rounds;
}

}  // namespace orrery
