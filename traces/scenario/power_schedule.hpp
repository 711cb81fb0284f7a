// Limits of a cluster's power over time: contracts, events of the grid, cooling. Read by the
// simulator, which enforces a scenario's limits, and by policies that spend a budget. Plain values;
// one thread. Nanoseconds of the policy clock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <google/protobuf/repeated_ptr_field.h>

#include "core/schema/names.hpp"
#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Spending of a power budget by the jobs of a log (JobPowerBudget.spend).
enum class JobSpending : std::uint8_t { follow, flat, pause, wait };
constexpr std::array<std::string_view, 4> names_of(JobSpending) {
  return {"follow", "flat", "pause", "wait"};
}
/// Returns the spending of a budget; follow if the budget names none. Throws as named().
inline JobSpending spending_of(const JobPowerBudget& budget) {
  return named(budget.spend(), std::optional(JobSpending::follow));
}

/// Limits of the power of a cluster, hosts and the site's overhead included. The lowest limit in
/// effect holds. For example, {share: 80%, from: 8 h, until: 20 h, every: 24 h} limits 8 x H100 to
/// 6.72 of 8.4 kW by day.
class PowerSchedule {
 public:
  /// One limit: from `from` for `length`, and again after each `every` (kNever: once).
  struct Window {
    Nanos from = 0, length = kNever, every = kNever;
    Watts limit{};
    /// Returns true if the limit is in effect at `now`.
    bool is_active(Nanos now) const;
    /// Returns the first instant after `now` at which the limit begins or ends; kNever if none
    /// follows.
    Nanos next_change(Nanos now) const;
    /// Returns true if the cluster is without this limit at some times.
    bool has_end() const { return length < every; }
  };

  /// Constructs a schedule without limits.
  PowerSchedule() = default;
  /// Reads the limits of a cluster. Throws bad_input, with the path of the limit after `path`, for
  /// a limit that ends before it begins, or that returns before it ends.
  PowerSchedule(const google::protobuf::RepeatedPtrField<PowerLimit>& limits,
                const Cluster& cluster, const char* path);

  /// Returns the lowest limit in effect at `now`; nothing without a limit.
  std::optional<Watts> limit_at(Nanos now) const;
  /// Returns the first instant after `now` at which a limit begins or ends; kNever if none follows.
  Nanos next_change(Nanos now) const;
  /// Returns the lowest limit of all; nothing without any.
  std::optional<Watts> lowest() const;
  /// Returns an instant after `now` by which all limits that do not return have begun and ended,
  /// except those that never end, and each that returns has come `rounds` times since. For example,
  /// 48 h after `now` for one limit of every day and two rounds.
  Nanos settled_time(Nanos now, int rounds) const;
  /// Returns all limits, in the order of the file.
  const std::vector<Window>& windows() const { return windows_; }

 private:
  std::vector<Window> windows_;
};

}  // namespace orrery
