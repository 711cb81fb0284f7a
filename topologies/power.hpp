// Power of a GPU by activity: products draw the most, waiting little more than an idle GPU. Used by
// the accounting of energy, by telemetry and by limits of power. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/units.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// Activities of a GPU. `products`: matrix products and attention. `memory`: kernels that the GPU's
/// memory limits. `communication`: transfers that no computation hides. `waiting`: a process waits
/// for another rank, the host or a restart. `idle`: no process uses the GPU.
enum class Activity : std::uint8_t { products, memory, communication, waiting, idle };
inline constexpr std::size_t kActivities = 5;
/// Time, or number of GPUs, by activity.
using ByActivity = std::array<double, kActivities>;

/// Returns the power of a GPU that does nothing but `activity`: idle power, and a share of the
/// power between idle and full load (GpuModel::activity_shares), at most the GPU's limit.
/// `clock`: share of its compute clock that the GPU keeps under a further limit; the power above
/// idle is at most the cube of that share of the GPU's own limit above idle. For example, an H100
/// draws 75 + 0.6 x 625 = 450 W in kernels that wait for its memory.
Watts power_of(const GpuModel& gpu, Activity activity, double clock = 1);

/// Returns the mean power of a GPU that divides its time in these proportions; idle power if all
/// are 0. `clock`: see power_of().
Watts mean_power(const GpuModel& gpu, const ByActivity& time, double clock = 1);

/// Returns the share of the compute clock that a GPU keeps under `limit`: the cube root of the
/// remaining power above idle over that of its own limit; 1 if the limit is no lower than its own,
/// 0 if the limit leaves nothing above idle.
double clock_under(const GpuModel& gpu, Watts limit);

/// Returns the power of the whole cluster with all GPUs at their limits, all hosts, and the site's
/// overhead.
Watts full_power(const Cluster& cluster);
/// Returns the limit of one GPU's power with which the whole cluster, hosts and site's overhead
/// included, draws at most `site`; the result may be below idle power.
Watts gpu_limit(const Cluster& cluster, Watts site);

}  // namespace orrery
