// Losses of a training job: the death of ranks with instant and cause, its detection by the
// remaining ranks, and the return to work, for the report. Kept by a training run; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Record of the losses of one job. A loss is undetected from record_death() until drain_noticed()
/// or forget_unnoticed(). For example, a rank that stops at 100 s with a heartbeat timeout of 10 s
/// is suspected from 105 s on and detected at 110 s.
class Losses {
 public:
  /// Records that `rank` died of `cause` at `now`, and that the death will be detected at
  /// `noticed`. `suspected`: instant from which the rank is suspected until then; kNever: never.
  /// `restart`, `replacement`: times of a restart and of a replacement after this loss, if it has
  /// its own. Call once for each loss of a rank.
  void record_death(RankId rank, const std::string& cause, Nanos now, Nanos noticed,
                    Nanos suspected = kNever, std::optional<Nanos> restart = {},
                    std::optional<Nanos> replacement = {});
  /// Records the loss of the whole job at `now`, for example by a link that never comes up again,
  /// as the newest loss. No rank detects this loss; earlier undetected losses stay undetected.
  void record_job_loss(const std::string& cause, Nanos now);

  /// Returns true if any loss was ever recorded, detected or not.
  bool has_losses() const { return !losses_.empty(); }
  /// Returns true if the rank is lost and undetected.
  bool is_undetected(RankId rank) const;
  /// Returns true if any loss is undetected.
  bool has_unnoticed() const { return !unnoticed_.empty(); }
  /// Returns the duration of a restart from a checkpoint: the longest of the losses without a step
  /// after them, of which those without a duration of their own count as `usual`; `usual` if there
  /// is no such loss.
  Nanos restart_time(Nanos usual) const;
  /// Returns the time from a loss until its ranks are replaced: the longest of the losses whose
  /// ranks are not present again, of which those without a time of their own count as `usual`;
  /// `usual` if there is no such loss.
  Nanos replacement_time(Nanos usual) const;
  /// Returns the first instant at which an undetected loss is detected, perhaps a past one; kNever
  /// if no loss is undetected.
  Nanos next_noticed() const;
  /// Returns the instant at which the last undetected loss is detected; `now` at the earliest, and
  /// if no loss is undetected.
  Nanos all_noticed(Nanos now) const;
  /// Forgets the undetected losses: nothing detects them later. Their entries in the report stay.
  void forget_unnoticed() { unnoticed_.clear(); }
  /// Returns the first instant after `now` from which a rank of an undetected loss is suspected;
  /// kNever if there is none.
  Nanos next_suspected(Nanos now) const;
  /// Returns the ranks of the undetected losses that have been silent at `now` for so long that
  /// they are suspected (suspicion_of()), in the order of their deaths.
  std::vector<RankId> silent_ranks(Nanos now) const;

  /// Losses detected at one instant.
  struct Noticed {
    std::vector<RankId> ranks;  ///< ascending
    Nanos first = kNever;       ///< instant of the first loss
  };
  /// Returns the losses detected by `now`, which are not undetected any more, and records `now` as
  /// the instant of their detection in the report. Returns no ranks, and kNever as `first`, if none
  /// is detected. `working`: instant from which the remaining ranks work, for the report.
  Noticed drain_noticed(Nanos now, Nanos working);

  /// Records that a step has been committed at `now` after all losses so far: `now` is the instant
  /// of the return to work of each loss that has none yet.
  void mark_resumed(Nanos now);
  /// Returns true if a step was committed after every loss, also without losses.
  bool has_resumed() const;
  /// Records that the ranks of all losses so far are present again at `now`; losses with an earlier
  /// such record keep theirs.
  void mark_replaced(Nanos now);
  /// Records `steps` as the number of steps that are repeated because of the newest loss, instead
  /// of an earlier number; does nothing without losses.
  void record_rollback(Step steps);
  /// Returns the cause of the newest loss; empty without losses.
  std::string newest_cause() const;
  /// Appends one failure to the report for each loss; a second call appends them again.
  void fill(Report& report) const;

 private:
  struct Loss {
    std::optional<RankId> rank;
    Nanos at = 0;
    Nanos suspected = kNever;
    std::optional<Nanos> restart, replacement;  ///< times of the loss, if it has its own
    FailureReport report;
    /// Passes all members to a StateWriter or StateReader.
    template <class Archive>
    friend void fields(Archive& archive, Loss& of) {
      archive(of.rank, of.at, of.suspected, of.restart, of.replacement, of.report);
    }
  };
  Loss& add(const std::string& cause, Nanos now);

  std::vector<Loss> losses_;
  std::size_t replaced_ = 0;  ///< number of losses whose ranks are present again
  /// instant of detection, index of the loss
  std::vector<std::pair<Nanos, std::size_t>> unnoticed_;

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, Losses& of) {
    archive(of.losses_, of.replaced_, of.unnoticed_);
  }
};

}  // namespace orrery::sim
