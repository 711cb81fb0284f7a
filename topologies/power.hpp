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

/// Power of a cluster of which some GPUs work and the others are idle. Working GPUs count as if
/// they computed products at once. For example, with 8 H100 and a host of 2.8 kW under 6.72 kW,
/// five GPUs may work at full power at once, or eight at 87% of the clock.
class WorkingPower {
 public:
  /// Constructs the power of no cluster.
  WorkingPower() = default;
  /// Copies the figures of the cluster.
  explicit WorkingPower(const Cluster& cluster);

  /// Returns true if idle power and full power of the cluster's GPUs are known.
  bool is_known() const { return idle_ > 0 && above_ > 0; }
  /// Returns the power of the cluster, hosts and site's overhead included, while `working` of its
  /// GPUs work at `clock`.
  Watts total_power(double working, double clock = 1) const;
  /// Returns the number of GPUs that may work at `clock` at once, so that the cluster draws at most
  /// `site`: at most all, 0 if `site` is not above the power of the idle cluster. Call only if
  /// is_known().
  std::uint32_t gpus_within(Watts site, double clock = 1) const;
  /// Returns the clock of `working` GPUs that share the power which `site` leaves: at most 1, 0 if
  /// `site` is not above the power of the idle cluster; 1 for no GPUs. Call only if is_known().
  double shared_clock(double working, Watts site) const;
  /// Returns the number of all GPUs.
  std::uint32_t gpus() const { return gpus_; }

 private:
  /// Returns the power above that of the idle cluster, without the site's overhead.
  double left_of(Watts site) const { return site.value / pue_ - hosts_ - idle_ * gpus_; }

  std::uint32_t gpus_ = 0;
  double pue_ = 1, hosts_ = 0;
  double idle_ = 0, above_ = 0;  ///< watts of one GPU: idle, and at most above
};

}  // namespace orrery
