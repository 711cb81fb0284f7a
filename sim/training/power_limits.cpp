#include "sim/training/power_limits.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
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

PowerLimits::PowerLimits(const PowerBudget& budget, const Cluster* cluster) {
  if (budget.limits().empty()) return;
  ensure(cluster != nullptr, "limits of power are those of a cluster");
  schedule_ = PowerSchedule(budget.limits(), *cluster, "power.limits");
  const PowerSpending spending = named(budget.spend(), std::optional(PowerSpending::follow));
  for (const PowerSchedule::Window& window : schedule_.windows()) {
    const Watts each = gpu_limit(*cluster, window.limit);
    double clock = clock_under(cluster->gpu_model(), each);
    if (clock < 1 && spending == PowerSpending::pause) clock = 0;
    if (clock <= 0 && !(window.has_end() && spending != PowerSpending::flat)) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("power.limits[{}]: expected power for the GPUs at some time, found "
                              "{:.0f} W for each GPU, which draws {:.0f} W idle: raise the limit "
                              "or let it end",
                              clocks_.size(), each.value, cluster->gpu_model().idle_power.value));
    }
    clocks_.push_back(clock);
  }
  if (spending != PowerSpending::flat) return;
  always_ = *std::min_element(clocks_.begin(), clocks_.end());
  schedule_ = {};
  clocks_.clear();
}

double PowerLimits::clock_at(Nanos now) const {
  double clock = always_;
  for (std::size_t i = 0; i < clocks_.size(); ++i) {
    if (schedule_.windows()[i].is_active(now)) clock = std::min(clock, clocks_[i]);
  }
  return clock;
}

Nanos PowerLimits::next_change(Nanos now) const { return schedule_.next_change(now); }

}  // namespace orrery::sim
