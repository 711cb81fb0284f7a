// How many micro-batches each data-parallel replica should work on so that the slowest finishes
// as early as possible. Pure functions; safe from any thread. Times are seconds.
//
// A replica with n micro-batches of t seconds finishes after (n + fill) * t, where `fill` is the
// number of micro-batch slots in which its pipeline fills and drains (stages - 1; 0 without one).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

using ShareList = std::vector<std::uint32_t>;  ///< micro-batches of one step, by replica

/// When the last replica finishes. `times` has one entry per replica, each > 0.
double makespan(std::span<const std::uint32_t> shares, std::span<const double> times, double fill);

/// The makespan if micro-batches were divisible: a lower bound on that of any shares.
double balanced_time(std::uint64_t total, std::span<const double> times, double fill);

/// ShareList with the sum of `current`, at least 1 and at most `most` (0: no limit) each, whose
/// makespan is the smallest possible; among those, close to `current`. Returns `current` if no
/// such shares exist.
ShareList best_shares(std::span<const std::uint32_t> current, std::span<const double> times,
                   double fill, std::uint32_t most);

}  // namespace orrery
