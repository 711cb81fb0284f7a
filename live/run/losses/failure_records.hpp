// Records of lost ranks for the report.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "live/supervision.pb.h"
#include "traces/report.pb.h"

namespace orrery::live {

/// Records of all losses of ranks: the instants at which a loss occurred, was detected, was known
/// to all survivors, and was followed by work, by the replacement and by the next commit.
/// Single-threaded. Instants are times of the policy clock.
class FailureRecords {
 public:
  /// Starts with the losses of an earlier controller, which do not count as changed.
  explicit FailureRecords(std::vector<JournalLoss> losses = {}) : records_(std::move(losses)) {}
  /// Adds a loss of `rank` at `at`, detected at `noticed`, with no other instant yet. `cause`: for
  /// example "killed by signal 9 (Killed)"; cause() returns it after "rank N ".
  void add_loss(std::uint32_t rank, Nanos at, Nanos noticed, const std::string& cause);
  /// Records in every loss without this instant that every survivor has left the old epoch since
  /// `now`. No effect without such a loss.
  void mark_known(Nanos now);
  /// Records in every loss without this instant that the members work on a step again since `now`.
  /// May be called for every step.
  void mark_working(Nanos now);
  /// Records in every loss of `rank` without this instant that the rank is a member again since
  /// `now`; no effect if no such loss exists. May be called for every member of every step.
  void mark_replaced(std::uint32_t rank, Nanos now);
  /// Records in every loss without this instant that a step has been committed at `now`. May be
  /// called for every step.
  void mark_resumed(Nanos now);

  /// Returns true if no rank was lost.
  bool empty() const { return records_.empty(); }
  /// Returns the cause of the newest loss, for example "rank 2 killed by signal 9 (Killed)"; valid
  /// until the next add_loss(). Call only while empty() is false.
  const std::string& cause() const { return records_.back().report().cause(); }
  /// Appends all losses to the report, oldest first; a second call appends them again.
  void fill(Report& report) const;
  /// Returns all losses, oldest first.
  const std::vector<JournalLoss>& all() const { return records_; }

  /// Returns the losses that have been added or changed since the last call, oldest first, for the
  /// journal.
  std::vector<JournalLoss> take_changed();

 private:
  /// Marks a loss as changed.
  void mark_changed(JournalLoss& record) { changed_.insert(record.index()); }

  std::vector<JournalLoss> records_;
  std::set<std::uint32_t> changed_;  ///< Indices of changed losses.
};

}  // namespace orrery::live
