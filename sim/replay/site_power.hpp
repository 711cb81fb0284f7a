// Power of a cluster during the replay of a log: the limits of a budget, the clock that they leave
// to running jobs, and the energy. Kept by sim/replay/recorded_jobs; one thread. Nanoseconds of the
// policy clock, watts.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/training/energy_meter.hpp"
#include "topologies/power.hpp"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"
#include "traces/scenario/power_schedule.hpp"

namespace orrery::sim {

/// Least clock of running jobs under `follow` and `flat`. Under `follow`, fewer GPUs work if all
/// of them would have less.
inline constexpr double kLeastClock = 0.5;

/// Power of a cluster with jobs of a log. GPUs of running jobs count as if they computed products
/// at once, others with idle power.
///
/// For example, 8 H100 with a host of 2.8 kW may have 6.72 kW: under `pause` five GPUs work, under
/// `follow` four of them at their full clock or eight at 87% of it.
class SitePower {
 public:
  /// Constructs the power of no cluster, which limits and measures nothing.
  SitePower() = default;
  /// Reads a budget, which may have no limits. `cluster` must outlive this object. Throws bad_input
  /// as PowerSchedule(), for limits of a cluster whose GPUs have no known power, for limits that
  /// never leave power to a GPU, and for a flat cap below kLeastClock.
  SitePower(const JobPowerBudget& budget, const Cluster& cluster);

  /// Returns true if the power of the GPUs is known.
  bool is_known() const { return power_.is_known(); }
  bool has_limits() const { return !schedule_.windows().empty(); }
  /// Returns true if the limits change the clock of running jobs.
  bool changes_clock() const {
    return has_limits() && (spending_ == JobSpending::follow || spending_ == JobSpending::flat);
  }
  /// Returns the largest number of GPUs that may work at once when all limits that never end have
  /// begun and those that do not return have ended: a larger job may never end. Call if is_known().
  std::uint32_t most_gpus_lasting() const;
  /// Returns the number of GPUs that may work from the newest instant of hold_until() on; call if
  /// is_known().
  std::uint32_t most_gpus() const;

  /// Begins to measure at `at`, with no working GPU. Call once, before the methods below.
  void begin(Nanos at);
  /// Measures up to `now` with the newest working GPUs and clock; nothing if `now` is not later
  /// than the newest call.
  void hold_until(Nanos now);
  /// Sets the number of working GPUs from the newest instant of hold_until() on, and returns their
  /// clock.
  double set_work(double gpus);
  /// Records that a job lost its GPUs because of a limit. Throws bad_input if no job has ended
  /// during so many pauses that none will.
  void count_pause();
  /// Records that a job has ended.
  void count_end() { pauses_at_end_ = pauses_; }
  /// Returns the next instant at which a limit begins or ends; kNever if none follows. `work`: a
  /// job runs or will arrive. Without work, limits count until each of them has come often enough
  /// since the last work that a waiting job which has not started will never start.
  Nanos next_change(bool work) const;

  /// Writes energy, prices, the highest power and the time above the limits; nothing if the power
  /// of the GPUs is not known.
  void fill(JobsReport& report) const;

 private:
  std::uint32_t gpus_under(std::optional<Watts> limit) const;

  WorkingPower power_;
  PowerSchedule schedule_;
  JobSpending spending_ = JobSpending::follow;
  double flat_clock_ = 1;
  EnergyMeter meter_;
  Nanos begin_ = 0, since_ = 0;      ///< instants of begin() and of the newest hold_until()
  std::optional<Watts> limit_ = {};  ///< limit from `since_` on
  Nanos change_ = kNever;            ///< next begin or end of a limit after `since_`
  Nanos last_work_ = 0;              ///< newest instant at which a GPU worked
  double working_ = 0, clock_ = 1;
  double highest_ = 0;  ///< watts
  double used_ = 0;     ///< GPU-seconds
  Nanos over_ = 0;
  std::uint64_t pauses_ = 0, pauses_at_end_ = 0;  ///< in all, and up to the newest end of a job
};

}  // namespace orrery::sim
