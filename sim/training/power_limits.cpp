#include "sim/training/power_limits.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "topologies/power.hpp"

namespace orrery::sim {

/// Spending of a power budget, as scenarios name it.
enum class PowerSpending : std::uint8_t { follow, flat, pause };
constexpr std::array<std::string_view, 3> names_of(PowerSpending) {
  return {"follow", "flat", "pause"};
}

namespace {

[[noreturn]] void fail(int number, const std::string& message) {
  throw Error(ErrorKind::bad_input, fmt::format("power.limits[{}]: {}", number, message));
}

void check_times(const PowerLimit& limit, int number) {
  if (limit.has_until() && limit.until() <= limit.from()) {
    fail(number, "expected 'until' after 'from', found an earlier time");
  }
  if (!limit.has_every()) return;
  if (!limit.has_until()) fail(number, "expected 'until' beside 'every', found no end");
  if (limit.every() < limit.until() - limit.from()) {
    fail(number, "expected 'every' at least as long as the limit, found a shorter time");
  }
}

Watts watts_of(const PowerLimit& limit, const Cluster& cluster) {
  return limit.limit_case() == PowerLimit::kPower ? Watts{limit.power()}
                                                  : full_power(cluster) * limit.share();
}

}  // namespace

bool PowerLimits::Window::is_active(Nanos now) const {
  if (now < from) return false;
  const Nanos since = now - from;
  return (every == kNever ? since : since % every) < length;
}

Nanos PowerLimits::Window::next_change(Nanos now) const {
  if (now < from) return from;
  const Nanos since = now - from;
  if (every == kNever) return length < kNever - from && since < length ? from + length : kNever;
  const Nanos begin = now - since % every;
  return since % every < length && length < every ? begin + length : begin + every;
}

PowerLimits::PowerLimits(const PowerBudget& budget, const Cluster* cluster) {
  const PowerSpending spending = named(budget.spend(), std::optional(PowerSpending::follow));
  for (int i = 0; i < budget.limits_size(); ++i) {
    const PowerLimit& limit = budget.limits(i);
    ensure(cluster != nullptr, "limits of power are those of a cluster");
    check_times(limit, i);
    const Watts each = gpu_limit(*cluster, watts_of(limit, *cluster));
    Window window{.from = limit.from(), .clock = clock_under(cluster->gpu_model(), each)};
    if (limit.has_until()) window.length = limit.until() - limit.from();
    if (limit.has_every()) window.every = limit.every();
    if (window.clock < 1 && spending == PowerSpending::pause) window.clock = 0;
    const bool ends = window.length < window.every && spending != PowerSpending::flat;
    if (window.clock <= 0 && !ends) {
      fail(i, fmt::format("expected power for the GPUs at some time, found {:.0f} W for each GPU, "
                          "which draws {:.0f} W idle: raise the limit or let it end",
                          each.value, cluster->gpu_model().idle_power.value));
    }
    windows_.push_back(window);
  }
  if (spending != PowerSpending::flat || windows_.empty()) return;
  const auto lowest = std::min_element(
      windows_.begin(), windows_.end(),
      [](const Window& a, const Window& b) { return a.clock < b.clock; });
  windows_ = {Window{.clock = lowest->clock}};
}

double PowerLimits::clock_at(Nanos now) const {
  double clock = 1;
  for (const Window& window : windows_) {
    if (window.is_active(now)) clock = std::min(clock, window.clock);
  }
  return clock;
}

Nanos PowerLimits::next_change(Nanos now) const {
  Nanos next = kNever;
  for (const Window& window : windows_) next = std::min(next, window.next_change(now));
  return next;
}

}  // namespace orrery::sim
