// Ranks that a live run lacks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/ids.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

/// Ranks of a job that work, and the number that the job is to have: the number of the scenario, or
/// of the newest assignment by a policy (RunState::wanted_ranks). For example, after an assignment
/// of 3 GPUs a job with 2 working ranks lacks 1.
struct RankCount {
  std::size_t working = 0, wanted = 0;
  /// Returns the number of missing ranks; 0 if more ranks work than wanted.
  std::size_t missing() const { return working < wanted ? wanted - working : 0; }
};

/// Watch for ranks that a job lacks. Warns while the run still goes on. Used by the step driver;
/// single-threaded. Instants are times of the policy clock.
class RankShortage {
 public:
  /// Returns a warning if the job lacks ranks for too long, or has all ranks again after a warning;
  /// otherwise nothing. Warns after one second if no replacement is `pending`, otherwise after ten,
  /// counted from the first call with the same number of working ranks, and not again until
  /// another number was warned about or the shortage has ended. `cause`: of the newest loss; may be
  /// empty.
  std::optional<std::string> find_warning(const RankCount& ranks, bool pending,
                                          const std::string& cause, Nanos now);

  /// Records the number of ranks that worked at the end of the run; a later call replaces the
  /// number. Returns a warning if ranks were missing, otherwise nothing; ranks do not count as
  /// missing while a replacement is `pending` and find_warning() has seen the shortage for less
  /// than ten seconds or not at all.
  std::optional<std::string> record_end(const RankCount& ranks, bool pending, Nanos now);
  /// Writes the ranks at the end of the run into the report; nothing before record_end().
  void fill(Report& report) const;

 private:
  std::size_t working_ = 0;            ///< Working ranks at the newest check.
  std::optional<Nanos> since_;         ///< Start of the shortage with working_ ranks.
  std::optional<std::size_t> warned_;  ///< Number of ranks of the newest warning.
  std::optional<std::size_t> at_end_;
  std::size_t missing_at_end_ = 0;
};

}  // namespace orrery::live
