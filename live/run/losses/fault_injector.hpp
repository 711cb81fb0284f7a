// Injection of a scenario's faults into the ranks of a live run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "live/run/files/journal.hpp"
#include "live/run/losses/fault_schedule.hpp"
#include "live/run/processes/rank_control.hpp"
#include "policies/seam/world.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

/// Injector of a scenario's faults and of the removals that an operator announces: sends the
/// signals that kill or stop ranks, each written to the journal before it is sent, and reports the
/// lost and the slower parts of the cluster and the state of each rank's hardware. Used by the live
/// backend between and within steps; single-threaded. Instants are times of the policy clock.
class FaultInjector {
 public:
  /// Continues after the faults in the journal of an earlier controller. All references must
  /// outlive this object. `slots`: GPUs that can have a rank. `first`: first step of this run;
  /// faults due at earlier steps belong to an earlier run. Throws as FaultSchedule.
  FaultInjector(const Scenario& scenario, const Cluster& cluster, std::uint32_t slots, Step first,
                RankControl& control, Journal& journal);

  /// Injects the faults that are due at `step` and `now`: writes each to the journal, then calls
  /// send_recorded(). A fault of an awaited rank waits until the rank has joined, and a
  /// fault of a rank that was hit before waits until take_hit_time(); a fault of another rank that
  /// is no member counts as injected without effect. No fault is injected twice. Call with instants
  /// that do not decrease; after a rollback earlier steps inject no fault of a step. Throws as
  /// RankControl::signal().
  void inject_due(Step step, Nanos now, std::span<const std::uint32_t> awaited);
  /// Continues the ranks whose stops have ended by `now`. Call many times a second.
  void continue_stopped(Nanos now);
  /// Sends the signal of each injection in the journal that this object has not sent yet and whose
  /// loss the journal does not hold; not of a stop that has ended by `now`. Call many times a
  /// second. Throws as RankControl::signal().
  void send_recorded(Nanos now);
  /// Returns the instant at which a fault hit `rank`, once; nothing if no fault has hit the rank
  /// since. Call when the loss of the rank is detected: until then no other fault hits the rank.
  std::optional<Nanos> take_hit_time(std::uint32_t rank);
  /// Announces that `part`, a GPU or node of the cluster, goes down `notice` after `now`, for
  /// `lasts` or for ever, and is tested when it returns if `test`. Written to the journal;
  /// part_changes() contains the announcement from now on.
  void announce_removal(Part part, Nanos now, Nanos notice, std::optional<Nanos> lasts, bool test);

  /// Returns the changes that a cluster's monitoring would report against `known`, the state
  /// reported so far: parts lost or slower now, parts restored, and announced removals; empty if
  /// nothing has changed. Tests no part (PartTests). Injects nothing.
  std::vector<PartChanged> part_changes(const ClusterState& known, Step step, Nanos now) const;
  /// Returns true if part_changes() contains a change, or a fault changes at a later instant.
  /// Faults that change at a step do not count: a job on hold does not reach the step.
  bool has_coming_changes(const ClusterState& known, Step step, Nanos now) const {
    return next_instant(now) != kNever || !part_changes(known, step, now).empty();
  }
  /// Returns true if the part is tested when it returns.
  bool has_test(Part part) const;
  /// Returns true if a part of the cluster is lost now.
  bool has_lost_parts(Step step, Nanos now) const { return !lost_parts(step, now).empty(); }
  /// Returns the state of the rank's hardware.
  Hardware hardware(std::uint32_t rank, Step step, Nanos now) const {
    return scripted().hardware(rank, step, now);
  }
  /// Returns the first instant after `now` at which a fault changes; kNever if none does.
  Nanos next_instant(Nanos now) const;

  /// Writes the number of faults into the report, and the ideal step time in seconds with the
  /// hardware of step `last` at the instant `elapsed`.
  void fill(Report& report, Step last, Nanos elapsed) const;

 private:
  /// Returns the schedule of the scenario's faults.
  FaultSchedule& scripted() const { return *schedules_.front(); }
  /// Adds the schedule of a removal.
  void add_removal(const Fault& removal, const FaultProgress& progress = {});
  /// Returns the parts that are lost now, by the scenario or by an announced removal.
  std::set<Part> lost_parts(Step step, Nanos now) const;
  /// Writes the injections of the schedule that are due to the journal; `number`: number of the
  /// first fault of the schedule among all faults.
  void record_due(FaultSchedule& schedule, int number, Step step, Nanos now,
                  std::span<const std::uint32_t> awaited);

  const Scenario& scenario_;
  const Cluster& cluster_;
  const std::uint32_t slots_;
  RankControl& control_;
  Journal& journal_;
  /// The schedule of the scenario's faults, and one for each removal in the journal.
  std::vector<std::unique_ptr<FaultSchedule>> schedules_;
  std::size_t handled_ = 0;  ///< Injections of the journal that send_recorded() has handled.
};

}  // namespace orrery::live
