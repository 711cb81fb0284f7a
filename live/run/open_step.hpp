// Current step of a live run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"

namespace orrery::live {

/// Use of a report's work for the open step.
enum class ReportedWork {
  none,       ///< work of another step, or reported before
  open,       ///< part of the step, unless a new epoch discards it
  discarded,  ///< work of an epoch that a new one has replaced
};

/// Step that is in flight or next: its start, the reports of its ranks, and the duration of the
/// previous step. Reported work counts once the step is committed; a new epoch discards it. Used by
/// the step driver; single-threaded. Instants are times of the policy clock.
class OpenStep {
 public:
  /// Starts before step `first` with ranks 0 .. `ranks` - 1, neither in flight nor disturbed.
  OpenStep(Step first, std::uint32_t ranks) : number_(first), reports_(ranks) {}

  /// Returns the number of the step.
  Step number() const { return number_; }
  /// Returns true if the ranks work on the step: from begin() until the commit or
  /// mark_interrupted().
  bool is_current() const { return under_way_; }
  /// Returns the duration of the newest step that this object committed, in nanoseconds: the time
  /// since the previous commit; 0 if none is committed. If the membership changed during the step,
  /// only the time since begin() in the last epoch counts.
  Nanos newest_duration() const { return took_; }
  /// Returns true if mark_interrupted() or roll_back_to() was called since the last commit or,
  /// before the first, since the start.
  bool is_disturbed() const { return disturbed_; }
  /// Returns true if at most 1.25 times the duration of the previous step has passed since the
  /// newest begin(), in flight or not; false before the first commit.
  bool is_as_before(Nanos now) const;

  /// Returns the instant from which the step may begin: `by` nanoseconds after the first call for
  /// this step with `by` above 0, made at `now`; `now` for 0. The delay is not part of the step's
  /// duration.
  Nanos delay(Nanos by, Nanos now);
  /// Returns the end of a delay after `now`, until the step has begun; kNever without one.
  Nanos next_begin(Nanos now) const {
    return !under_way_ && delayed_ && delayed_->first == number_ && delayed_->second > now
               ? delayed_->second
               : kNever;
  }

  /// Marks the step as in flight since `now`, for the first time or again in a new epoch. Keeps
  /// reports.
  void begin(Nanos now);
  /// Stores the report of a rank's process `life` if the report belongs to this step and to
  /// `epoch`, the current membership epoch, and was not abandoned. Returns the use of its work. A
  /// repeated report is `none`, without effect: ranks repeat their newest one to a new controller,
  /// also if its step is committed already, which a checkpoint may bring back as a step to come.
  /// `rank` must be below the number of ranks.
  ReportedWork add_report(std::uint32_t rank, std::uint32_t life, const StepReport& report,
                          std::uint64_t epoch);
  /// Marks the step as interrupted, because the membership is revoked: not in flight, but
  /// disturbed. Keeps the reports.
  void mark_interrupted();
  /// Replaces the step by step `next`, which is disturbed and not in flight; discards all reports.
  void roll_back_to(Step next);
  /// Discards all stored reports, because epoch `formed` begins without them, and the work of
  /// earlier epochs that is reported later: by ranks that stood still meanwhile. A repeated report
  /// of the same incarnation, epoch and step still counts as known to add_report().
  void discard_reports(std::uint64_t formed);
  /// Commits the step at `now` and opens the next one, which is neither in flight nor disturbed and
  /// has no reports. `before`: instant of the previous commit, 0 before the first. Returns the
  /// reports by rank; the report of a rank that sent none is empty. Call only while is_current()
  /// holds.
  std::vector<StepReport> commit_step(Nanos now, Nanos before);

 private:
  Step number_;
  bool under_way_ = false;
  bool disturbed_ = false;
  Nanos began_at_ = 0;  ///< Start in the current epoch.
  Nanos took_ = 0;
  std::optional<std::pair<Step, Nanos>> delayed_;   ///< Newest delayed step, end of its delay.
  std::vector<std::optional<StepReport>> reports_;  ///< Reports by rank.
  std::uint64_t formed_ = 0;                        ///< Newest epoch of discard_reports().
  /// Incarnation, epoch and step of the newest report, by rank.
  std::map<std::uint32_t, std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> heard_;
};

}  // namespace orrery::live
