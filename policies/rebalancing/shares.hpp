// Best micro-batches for each data-parallel replica, so that the slowest ends as early as possible.
// Pure functions; thread-safe. Times are seconds. A replica with n micro-batches of t seconds ends
// after (n + fill) * t, with `fill` the number of micro-batch slots in which its pipeline fills and
// drains (stages - 1; 0 without a pipeline).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

using ShareList = std::vector<std::uint32_t>;  ///< micro-batches of one step, by replica

/// Returns the time at which the last replica ends; 0 without replicas. `times`: one entry for each
/// entry of `shares`, each > 0. A replica with 0 micro-batches still counts with its `fill`.
double makespan(std::span<const std::uint32_t> shares, std::span<const double> times, double fill);

/// Returns the makespan of `total` divisible micro-batches: a lower bound on the makespan of any
/// shares. `times` must not be empty, and each > 0.
double balanced_time(std::uint64_t total, std::span<const double> times, double fill);

/// Returns the shares with the sum of `current`, at least 1 and at most `most` (0: no limit) each,
/// with the smallest possible makespan; among those, shares close to `current`. Returns `current`
/// if no such shares exist: the sum is below the number of replicas, or above `most` times this
/// number. `times`: one entry > 0 for each replica. For example, {8, 8} at times {1, 3} and fill 0
/// becomes {12, 4}.
ShareList best_shares(std::span<const std::uint32_t> current, std::span<const double> times,
                   double fill, std::uint32_t most);

}  // namespace orrery
