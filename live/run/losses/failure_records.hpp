// What is told of every rank that was lost: when it happened, when it was noticed, known to all,
// worked round, replaced and overcome. One thread. Instants are the policy clock's.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "live/supervision.pb.h"
#include "traces/report.pb.h"

namespace orrery::live {

class FailureRecords {
 public:
  /// `cause`: "killed by signal 9 (Killed)".
  void lost(std::uint32_t rank, Nanos at, Nanos noticed, const std::string& cause);
  /// Every survivor has given up what was before.
  void known(Nanos now);
  /// The members work on a step again.
  void working(Nanos now);
  /// That rank is among them.
  void replaced(std::uint32_t rank, Nanos now);
  /// A step has been committed.
  void resumed(Nanos now);

  bool empty() const { return records_.empty(); }
  /// Of the newest loss.
  const std::string& cause() const { return records_.back().report().cause(); }
  void fill(Report& report) const;
  const std::vector<JournalLoss>& all() const { return records_; }

  /// Those that have changed since the last call, for the journal.
  std::vector<JournalLoss> take_changed();
  /// What an earlier controller had written down.
  void restore(const std::vector<JournalLoss>& losses) { records_ = losses; }

 private:
  void change(JournalLoss& record) { changed_.insert(record.index()); }

  std::vector<JournalLoss> records_;
  std::set<std::uint32_t> changed_;  ///< by index
};

}  // namespace orrery::live
