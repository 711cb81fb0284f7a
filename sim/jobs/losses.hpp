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

/// Record of the losses of one job.
class Losses {
 public:
  /// Records that `rank` died of `cause` at `now`, detected at `noticed`. `suspected`: instant from
  /// which the rank is suspected until then; kNever if the death shows at once.
  void record_death(RankId rank, const std::string& cause, Nanos now, Nanos noticed,
                    Nanos suspected = kNever);
  /// Records the loss of the whole job, for example by a link that never comes up again. No rank
  /// detects this loss; earlier undetected losses stay undetected.
  void end(const std::string& cause, Nanos now);

  /// Returns true if any loss is recorded, detected or not.
  bool has_losses() const { return !losses_.empty(); }
  /// Returns true if the rank is lost and undetected.
  bool has_died(RankId rank) const;
  /// Returns true if any loss is undetected.
  bool has_unnoticed() const { return !unnoticed_.empty(); }
  Nanos next_noticed() const;          ///< kNever: no loss is undetected
  Nanos all_noticed(Nanos now) const;  ///< `now` at the earliest
  /// Forgets the undetected losses: nothing detects them later. Their entries in the report stay.
  void forget_unnoticed() { unnoticed_.clear(); }
  /// Returns the next instant at which another rank is suspected; kNever: none.
  Nanos next_suspected() const;
  /// Returns the ranks that are suspected at `now`, ascending; nothing if the list is unchanged
  /// since the last call.
  std::optional<std::vector<RankId>> new_suspects(Nanos now);

  /// Losses detected at one instant.
  struct Noticed {
    std::vector<RankId> ranks;  ///< ascending
    Nanos first = kNever;       ///< instant of the first loss
  };
  /// Returns the losses detected by `now`, empty if none, which are not undetected any more; the
  /// remaining ranks work from `working` on.
  Noticed drain_noticed(Nanos now, Nanos working);

  /// Records that a step has been committed at `now` after all losses so far.
  void mark_resumed(Nanos now);
  bool has_resumed() const;          ///< true if a step was committed after every loss
  void replaced(Nanos now);          ///< all ranks are present again
  void rolled_back(Step steps);      ///< repeated because of the newest loss, if any
  std::string newest_cause() const;  ///< empty: no loss
  /// Appends one failure to the report for each loss; a second call appends them again.
  void fill(Report& report) const;

 private:
  struct Loss {
    std::optional<RankId> rank;
    Nanos at = 0;
    Nanos suspected = kNever;
    FailureReport report;
  };
  Loss& add(const std::string& cause, Nanos now);

  std::vector<Loss> losses_;
  std::size_t replaced_ = 0;  ///< number of losses whose ranks are present again
  /// instant of detection, index of the loss
  std::vector<std::pair<Nanos, std::size_t>> unnoticed_;
  std::vector<RankId> suspects_;  ///< newest list of suspected ranks
};

}  // namespace orrery::sim
