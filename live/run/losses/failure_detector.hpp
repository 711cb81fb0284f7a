// Detection of ranks that have failed without ending.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/control.pb.h"
#include "live/run/losses/fault_injector.hpp"
#include "live/run/losses/progress_watch.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/processes/rank_control.hpp"
#include "live/supervision.pb.h"
#include "policies/seam/event.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Detector of failed ranks. Ranks that have been silent for a while are suspected; ranks that send
/// heartbeats but make no progress are killed, so that they are replaced as after any loss.
/// Receives the heartbeats; the live backend calls check_progress() twenty times a second.
/// Single-threaded. Instants are times of the policy clock.
class FailureDetector {
 public:
  /// Starts without suspicion. All references must outlive this object. `local`: the ranks'
  /// processes run on this machine. `warn`: shows a warning to the operator.
  FailureDetector(const Scenario& scenario, bool local, const Placement& placement,
                  const FaultInjector& faults, RankControl& control,
                  std::function<void(const std::string& what)> warn);

  /// Records a heartbeat of process `life` of `rank`: a new process or progress restarts the rank's
  /// timer.
  void record_heartbeat(std::uint32_t rank, std::uint32_t life, const Heartbeat& beat, Nanos now) {
    watch_.record_heartbeat(rank, life, beat, now);
  }
  /// Forgets the progress of all ranks: their processes have been ended.
  void forget_ranks() { watch_.forget_ranks(); }
  /// Records the duration of a committed step, from which check_progress() derives its limit.
  void step_done(Nanos took) { watch_.step_done(took); }

  /// Checks the progress of the current step. If no rank has made progress for a limit
  /// (ProgressWatch::limit()), kills the ranks that are behind the others, or the only rank. Links
  /// all ranks again in a new epoch instead if none is behind or if several ranks hang in the
  /// exchange; a rank that does not link is behind then. `under_way`: a step is in flight. The
  /// timers restart after each of these, while no work is due, a part of the cluster is lost, or
  /// the ranks that hold the training state are silent, and if the last call is more than 5 s ago,
  /// because this machine was suspended. Warns if those ranks fall silent or are heard again.
  /// Neither kills nor links ranks if live.progress_timeout is 0. Call only once the job is
  /// submitted.
  void check_progress(Step step, bool under_way, Nanos now);
  /// Returns the event of the ranks of the job that are silent now, or heard again; nothing if the
  /// policies know (suspicion_of()). Call only once the job is submitted.
  std::optional<RanksSuspected> new_suspects() const;

  /// Returns the step and its micro-batches that the rank reported last; zeros if the rank has
  /// reported none.
  std::pair<std::uint64_t, std::uint64_t> at(std::uint32_t rank) const { return watch_.at(rank); }

 private:
  /// Returns the seats whose processes have been silent for so long that they are suspected.
  std::vector<std::uint32_t> silent_seats() const;
  /// Returns true if a missing progress has a known reason or was not observed.
  bool has_reason_to_wait(Step step, bool under_way, Nanos now);
  /// Returns the warning about the silence of ranks without which the state is incomplete.
  std::string silence_of_holders() const;
  /// Returns the time without progress, in nanoseconds, after which a rank counts as stalled.
  Nanos limit(const std::vector<std::uint32_t>& ranks, Step step, Nanos now) const;
  /// Kills a stalled rank and warns the operator.
  void end(std::uint32_t rank, Nanos limit);

  const Scenario& scenario_;
  const bool local_;
  const Placement& placement_;
  const FaultInjector& faults_;
  RankControl& control_;
  const std::function<void(const std::string&)> warn_;
  ProgressWatch watch_;
  Nanos looked_at_ = 0;
  bool all_silent_ = false;  ///< Newest value reported to the operator.
};

}  // namespace orrery::live
