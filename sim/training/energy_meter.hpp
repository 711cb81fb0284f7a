// Energy of one simulated job by activity of its GPUs and by hour of the day, which prices of
// electricity and carbon by the hour need. Filled by the ledger of GPU time, which knows the use of
// the GPUs at every instant; one thread. Nanoseconds of the policy clock, joules, watts.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/units.hpp"
#include "topologies/power.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Meter of the energy of the GPUs of one job and of their share of the hosts. A plain value. A
/// default-constructed meter measures nothing.
///
/// For example, 8 H100 that compute products for a second add 8 x 700 J, and 8 times an eighth of
/// the host's power.
class EnergyMeter {
 public:
  /// Seconds by activity, and the share of the compute clock under a limit of power.
  struct Mix {
    ByActivity time{};
    double clock = 1;
    /// Passes all members to a StateWriter or StateReader.
    template <class Archive>
    friend void fields(Archive& archive, Mix& of) {
      archive(of.time, of.clock);
    }
  };

  EnergyMeter() = default;
  /// Constructs an empty meter for GPUs of the cluster, which must outlive the meter.
  explicit EnergyMeter(const Cluster& cluster);

  /// Measures from the instant `at` on: earlier time that add() reports counts nothing.
  void begin_at(Nanos at) { began_ = at; }
  /// Adds the time from `from` to `until` of `gpus` GPUs, which divide the time in the proportions
  /// of `mix`.
  void add(Nanos from, Nanos until, double gpus, const Mix& mix);

  /// Returns the energy of GPUs and hosts, without the site's overhead.
  double joules() const;
  /// Writes energy, its parts, mean power of a node, carbon, and the price of electricity, with the
  /// site's overhead where the key says so. `scale`: factor on all sums, for a run that has begun
  /// before this meter. `elapsed`: seconds of the whole run, of `gpus` GPUs.
  void fill(Report& report, double scale, double elapsed, double gpus) const;

 private:
  /// Adds `watts` from one instant of the tables' time to another, by hour.
  void add_hours(std::vector<double>& hours, Nanos from, Nanos until, double watts) const;
  /// Returns the sum of energy times value over the hours of a table; with an empty table the whole
  /// energy times `constant`.
  double priced(const std::vector<double>& hours, const std::vector<double>& table,
                double constant) const;

  const Cluster* cluster_ = nullptr;
  Nanos began_ = 0;
  ByActivity parts_{};  ///< joules of the GPUs
  double host_ = 0;     ///< joules
  /// Joules by hour of the tables of electricity and of carbon; empty without a table.
  std::vector<double> electricity_hours_, carbon_hours_;

  /// Passes all members except the cluster to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, EnergyMeter& of) {
    archive(of.began_, of.parts_, of.host_, of.electricity_hours_, of.carbon_hours_);
  }
};

}  // namespace orrery::sim
