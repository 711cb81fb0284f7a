// Metrics of the micro-batches of a run: each must enter the update of its step exactly once.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "core/ids.hpp"

namespace orrery::live {

/// Counters of lost, repeated and recomputed micro-batches, derived from the reports of the ranks
/// alone and independent of the step driver. For example, a step with micro-batches 0..3 whose
/// reports name 0, 1, 1, 3 counts one lost and one repeated micro-batch. Single-threaded.
class Ledger {
 public:
  /// Starts with these numbers of lost, repeated and recomputed micro-batches, those at the newest
  /// commit, and without executions of the next step.
  explicit Ledger(std::uint64_t lost = 0, std::uint64_t repeated = 0, std::uint64_t recomputed = 0)
      : lost_(lost), repeated_(repeated), recomputed_(recomputed) {}

  /// Records that a rank has executed micro-batch `id` of `step`.
  void record_execution(Step step, std::uint64_t id);
  /// Records the commit of `step` with the micro-batches 0 .. `micro_batches` - 1, whose update
  /// holds all executions since its last commit or discard: counts lost, repeated and recomputed
  /// micro-batches. An execution with an `id` outside the step counts as repeated. Without
  /// executions all micro-batches count as lost. Call once for each commit, also of a step that is
  /// committed again after a rollback.
  void record_commit(Step step, std::uint64_t micro_batches);
  /// Records that all executions of `step` so far are discarded; they count as recomputed once the
  /// step is committed. No effect without executions.
  void record_discard(Step step);
  /// Records one execution for `step` that was discarded before it was reported.
  void record_late_execution(Step step) { ++thrown_away_[step]; }

  /// Returns the number of micro-batches missing in committed steps.
  std::uint64_t lost_count() const { return lost_; }
  /// Returns the number of repeated executions in committed steps.
  std::uint64_t repeated_count() const { return repeated_; }
  /// Returns the number of discarded executions of steps that were committed later. The executions
  /// of a commit that was rolled back later do not count.
  std::uint64_t recomputed() const { return recomputed_; }

 private:
  /// Executions by micro-batch, of each uncommitted step.
  std::map<Step, std::map<std::uint64_t, std::uint64_t>> open_;
  std::map<Step, std::uint64_t> thrown_away_;  ///< Discarded executions by step.
  std::uint64_t lost_, repeated_, recomputed_;
};

}  // namespace orrery::live
