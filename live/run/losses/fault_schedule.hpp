// Schedule of a scenario's faults for the processes of a live run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "traces/scenario/fault_script.hpp"

namespace orrery::live {

/// Injection by an earlier controller, which may have ended before the signal was sent.
struct FaultInjection {
  int fault = 0;  ///< Index of the fault in the scenario.
  std::uint32_t rank = 0;
  Nanos at = 0;
  bool is_noticed = false;  ///< The loss was detected.
};

/// Progress of an earlier controller in the schedule.
struct FaultProgress {
  Step committed = 0;  ///< Committed steps, those before a rollback included.
  /// Faults that were due by this instant are left out: they were injected, or no rank was found
  /// for them. Nothing: no fault is left out.
  std::optional<Nanos> until = {};
  /// Injections that FaultSchedule::due() does not return again. take_hit_time() returns the
  /// instants of those that were not noticed.
  std::vector<FaultInjection> injections = {};
};

/// Schedule that maps a scenario's faults (FaultScript) to processes: the ranks to signal now, and
/// the state of each rank's hardware, which the rank's process imitates by its pace. Rank r runs on
/// GPU r. A step that is repeated after a rollback has the faults of the last step that has begun:
/// parts do not recover because a job loads a checkpoint. Single-threaded. Instants are times of
/// the policy clock.
class FaultSchedule {
 public:
  /// Injection of one fault into one rank.
  struct Strike {
    int fault = 0;  ///< Index of the fault in the scenario.
    std::uint32_t rank = 0;
  };

  /// Reads the faults of `scenario`. Both references must outlive this object. `ranks`: number of
  /// GPUs that can have a rank, at most those of the cluster. `first`: first step of this run;
  /// faults due at earlier steps belong to an earlier run. `progress`: of an earlier controller.
  /// Throws bad_input for a fault of a part that the cluster lacks.
  FaultSchedule(const Scenario& scenario, const Cluster& cluster, std::uint32_t ranks,
                Step first = 0, const FaultProgress& progress = {});

  /// Advances the schedule to `step`, unless it was later before a rollback, and to `now`, which
  /// must not decrease, and returns the injections that take effect, by trigger, or none; each is
  /// returned once. The injection of a rank that is `awaited` and not in `members`, or that was hit
  /// before and whose loss is not detected yet (take_hit_time()), waits for a later call. The
  /// injection of any other absent rank is dropped.
  std::vector<Strike> due(Step step, Nanos now, std::span<const std::uint32_t> members,
                          std::span<const std::uint32_t> awaited);
  /// Returns the ranks that stops have hit and that run again by `now`, once for each stop.
  std::vector<std::uint32_t> drain_resumed(Nanos now);
  /// Returns the first instant after `now` at which a fault changes; kNever if none does.
  Nanos next_instant(Nanos now) const { return script_.next_instant(now).value_or(kNever); }
  /// Returns the state of the rank's hardware under the faults. A link without a fault has the rate
  /// live.link_rate.
  Hardware hardware(std::uint32_t rank, Step step, Nanos now) const;
  /// Returns the parts of the cluster that are lost or carry no traffic.
  std::set<Part> lost_parts(Step step, Nanos now) const;
  /// Returns the parts of the cluster that are slower than their data sheet says, each with the
  /// share of its rate that is left.
  std::map<Part, double> slower_parts(Step step, Nanos now) const;
  /// Returns the planned removals from their announcement to the return of the part.
  std::map<Part, Removal> removals(Step step, Nanos now) const {
    return script_.removals(moment(step, now));
  }
  /// Returns true if the part is tested when it returns.
  bool has_test(Part part) const { return script_.test_time(part) > 0; }
  /// Returns the instant at which a fault hit `rank`, once; nothing if no fault hit the rank. Must
  /// be called when the loss of the rank is detected: until then further injections into the rank
  /// wait.
  std::optional<Nanos> take_hit_time(std::uint32_t rank);
  /// Returns true if the fault stops processes, which run again at its end, if it has one.
  bool is_stop(int fault) const;
  /// Returns true if the fault is a stop that has ended by `now`.
  bool is_stop_over(int fault, Nanos now) const;
  /// Returns the number of faults that have taken effect, faults of hardware, dropped injections
  /// and those of an earlier controller included. A fault does not count while all of its
  /// injections wait, nor an injection of an earlier run.
  std::size_t injected() const { return injected_.size(); }

 private:
  /// Returns the state of the script in `step`, or in the last step that has begun.
  Moment moment(Step step, Nanos now) const {
    return {std::max({begun_, seen_.step, static_cast<std::int64_t>(step)}), now};
  }
  /// Schedules the end of the stop `fault` of `rank`, if the fault is a stop with an end.
  void add_resume(std::uint32_t fault, std::uint32_t rank);
  /// Adds the injections of a fault that has begun, or only counts the fault.
  void add_injections(std::uint32_t fault);

  const Cluster& cluster_;
  FaultScript script_;
  const std::uint32_t ranks_;
  const std::vector<GpuId> gpus_;  ///< GPUs of rank 0, 1, ...
  const Step first_;
  const double link_rate_;  ///< Rate of a link without a fault in bytes per second; 0: unlimited.
  Moment seen_ = kBeforeTheRun;
  const std::int64_t begun_;  ///< last step that an earlier controller committed
  std::vector<Strike> waiting_;
  std::set<int> injected_;
  std::set<std::pair<int, std::uint32_t>> restored_;
  /// Ranks hit by a fault whose loss is not detected yet, with the instant.
  std::map<std::uint32_t, Nanos> struck_;
  /// Stopped ranks that will run again: the instants and the ranks.
  std::multimap<Nanos, std::uint32_t> resumed_;
};

}  // namespace orrery::live
