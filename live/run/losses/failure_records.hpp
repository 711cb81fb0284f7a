// Records of lost ranks for the report.
#pragma once

#include <cstdint>
#include <set>
#include <string>
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
  /// Adds a loss of `rank` at `at`, detected at `noticed`. `cause`: for example "killed by signal 9
  /// (Killed)".
  void add_loss(std::uint32_t rank, Nanos at, Nanos noticed, const std::string& cause);
  /// Records that every survivor has left the old epoch.
  void known(Nanos now);
  /// Records that the members work on a step again.
  void working(Nanos now);
  /// Records that a replacement of `rank` is a member.
  void replaced(std::uint32_t rank, Nanos now);
  /// Records that a step has been committed.
  void mark_resumed(Nanos now);

  /// Returns true if no rank was lost.
  bool empty() const { return records_.empty(); }
  /// Returns the cause of the newest loss.
  const std::string& cause() const { return records_.back().report().cause(); }
  /// Writes all losses into the report.
  void fill(Report& report) const;
  /// Returns all losses, oldest first.
  const std::vector<JournalLoss>& all() const { return records_; }

  /// Returns the losses that have changed since the last call, for the journal.
  std::vector<JournalLoss> take_changed();
  /// Restores the losses of an earlier controller.
  void restore_from(const std::vector<JournalLoss>& losses) { records_ = losses; }

 private:
  /// Marks a loss as changed.
  void mark_changed(JournalLoss& record) { changed_.insert(record.index()); }

  std::vector<JournalLoss> records_;
  std::set<std::uint32_t> changed_;  ///< Indices of changed losses.
};

}  // namespace orrery::live
