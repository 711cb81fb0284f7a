// Ranks that a live run lacks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/ids.hpp"
#include "live/supervision.pb.h"
#include "traces/report.pb.h"

namespace orrery::live {

/// Comparison of the ranks that work with the ranks that the job is to have: those of the scenario,
/// or of the newest assignment by a policy. For example, after an assignment of 3 GPUs a job with 2
/// working ranks lacks 1. Warns while the run still goes on. Used by the step driver;
/// single-threaded. Instants are times of the policy clock.
class RankShortage {
 public:
  /// Starts with `wanted` ranks, those of the scenario.
  explicit RankShortage(std::size_t wanted) : wanted_(wanted) {}

  /// Replaces the number of ranks that the job is to have. Timer and warnings of find_warning()
  /// stay.
  void set_wanted(std::size_t ranks) { wanted_ = ranks; }
  /// Returns the number of ranks that the job is to have.
  std::size_t target() const { return wanted_; }
  /// Returns the number of missing ranks while `working` ranks work; 0 if more ranks work than
  /// wanted.
  std::size_t missing(std::size_t working) const {
    return working < wanted_ ? wanted_ - working : 0;
  }

  /// Returns a warning if the job lacks ranks for too long, or has all ranks again after a warning;
  /// otherwise nothing. Warns after one second if no replacement is `pending`, otherwise after ten,
  /// counted from the first call with the same number of `working` ranks, and not again until
  /// another number was warned about or the shortage has ended. `cause`: of the newest loss; may be
  /// empty.
  std::optional<std::string> find_warning(std::size_t working, bool pending,
                                          const std::string& cause, Nanos now);

  /// Records the number of ranks that worked at the end of the run; a later call replaces the
  /// number. Returns a warning if ranks were missing, otherwise nothing; ranks do not count as
  /// missing while a replacement is `pending` and find_warning() has seen the shortage for less
  /// than ten seconds or not at all.
  std::optional<std::string> record_end(std::size_t working, bool pending, Nanos now);
  /// Writes the ranks at the end of the run into the report; nothing before record_end().
  void fill(Report& report) const;

  /// Writes the number of wanted ranks into a snapshot of the journal.
  void save_to(JournalSnapshot& now) const { now.set_ranks_wanted(wanted_); }
  /// Restores the number of wanted ranks from a snapshot.
  void restore_from(const JournalSnapshot& then) { wanted_ = then.ranks_wanted(); }

 private:
  std::size_t wanted_;
  std::size_t working_ = 0;            ///< Working ranks at the newest check.
  std::optional<Nanos> since_;         ///< Start of the shortage with working_ ranks.
  std::optional<std::size_t> warned_;  ///< Number of ranks of the newest warning.
  std::optional<std::size_t> at_end_;
  std::size_t missing_at_end_ = 0;
};

}  // namespace orrery::live
