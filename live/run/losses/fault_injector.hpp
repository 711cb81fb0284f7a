// Carries a scenario's faults out on the ranks of a live run: strikes them, each written to the
// journal before it happens, says which parts of the cluster are gone by them and how the hardware
// of each rank stands. Called by the live backend between and within steps; one thread. Instants
// are the policy clock's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "live/run/files/journal.hpp"
#include "live/run/losses/fault_schedule.hpp"
#include "live/run/processes/rank_control.hpp"
#include "policies/seam/world.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

class FaultInjector {
 public:
  /// All outlive this. What was to strike at a step before `first` struck an earlier run. Goes on
  /// where the journal of an earlier controller ends.
  FaultInjector(const Scenario& scenario, const Cluster& cluster, std::uint32_t ranks, Step first,
                RankControl& control, Journal& journal);

  /// Those that are due; one waits for ranks that are `awaited`.
  void strike(Step step, Nanos now, std::span<const std::uint32_t> awaited);
  /// What an earlier controller was about to strike, and what may not have happened.
  void strike_again();
  /// That rank is lost: when it was struck, if it was.
  std::optional<Nanos> struck(std::uint32_t rank) { return schedule_.noticed(rank); }

  /// What a cluster's own monitoring would say: parts that are gone now, and those that are back.
  std::vector<PartChanged> changes(const ClusterState& known, Step step, Nanos now) const;
  bool parts_lost(Step step, Nanos now) const { return !schedule_.lost_parts(step, now).empty(); }
  Hardware hardware(std::uint32_t rank, Step step, Nanos now) const {
    return schedule_.hardware(rank, step, now);
  }
  /// The first instant after `now` at which something changes; kNever: none.
  Nanos next_instant(Nanos now) const { return schedule_.next_instant(now); }

  void keep(JournalSnapshot& now) const;
  /// How many there were, and what a step would take if the hardware of `last` were used at best.
  void fill(Report& report, Step last, Nanos elapsed) const;

 private:
  void restore(const Past& past);

  const Scenario& scenario_;
  const std::uint32_t ranks_;
  RankControl& control_;
  Journal& journal_;
  FaultSchedule schedule_;
  std::vector<JournalStrike> strikes_;  ///< so far
};

}  // namespace orrery::live
