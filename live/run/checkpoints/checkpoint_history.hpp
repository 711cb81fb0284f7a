// History of a run's checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/checkpoint/keeper.hpp"
#include "live/run/files/journal.hpp"
#include "policies/seam/checkpoint_copies.hpp"

namespace orrery::live {

/// Record of the checkpoint attempts that a run has begun and of their outcomes: the counts of the
/// report, and the attempts that a successor of the controller must know. Of a tier in memory only
/// the newest complete checkpoint is retained. Used by RunCheckpoints; single-threaded.
class CheckpointHistory {
 public:
  /// Continues the history in `past` of an earlier controller; starts empty if `past` is.
  /// `training`: name of the training; `most`: number of newest complete checkpoints on disk that
  /// are retained.
  CheckpointHistory(const std::string& training, std::size_t most, const Past& past);

  /// Records that `attempt` at the checkpoint of `step` has begun.
  void record_begin(Step step, std::uint64_t attempt, Tier tier = Tier::local_disk);
  /// Records the end of `attempt` at the checkpoint of `step`, and forgets complete checkpoints
  /// of its tier beyond the retained ones. `whole`: the checkpoint is complete; otherwise the
  /// attempt failed and is forgotten, while a complete attempt of the same step stays. Returns true
  /// and counts the outcome; returns false, and counts nothing, if an earlier controller has
  /// already reported the checkpoint to the policies.
  bool record_end(Step step, std::uint64_t attempt, bool whole);
  /// Returns true if `attempt` has begun, and has neither failed nor been deleted nor forgotten.
  bool has_attempt(std::uint64_t attempt) const;
  /// Returns true if `attempt` is complete, and neither deleted nor forgotten.
  bool is_complete(std::uint64_t attempt) const;
  /// Forgets an attempt, complete or not, whose copies are lost.
  void forget_attempt(std::uint64_t attempt);
  /// Forgets the checkpoints of later steps than `step`, to which the run rolls back: an outcome
  /// that is still to come does not count, and new attempts at these steps are reported.
  void forget_after(Step step);
  /// Returns the attempts of a tier that an earlier controller had begun, oldest first; empty if
  /// there are none. A second call returns none.
  std::vector<CheckpointId> take_earlier(Tier tier = Tier::local_disk);

  /// Complete attempt at a checkpoint.
  struct Complete {
    Step step = 0;
    std::uint64_t attempt = 0;
    Tier tier = Tier::local_disk;
    friend bool operator==(const Complete&, const Complete&) = default;
  };
  /// Returns the complete attempts at checkpoints up to `step` that are neither deleted nor lost,
  /// newest first; empty if there are none.
  std::vector<Complete> complete_attempts(Step step) const;
  /// Returns the number of complete checkpoints, those that an earlier controller reported
  /// included.
  std::uint64_t written() const { return written_; }
  /// Returns the number of failed attempts, those that an earlier controller reported included.
  std::uint64_t failed_count() const { return failed_; }
  /// Returns the step of the newest attempt on disk that an earlier controller has reported, if
  /// this attempt failed; nothing otherwise.
  std::optional<Step> failed_before() const { return failed_before_; }
  /// Writes the history into `kept`, an empty message.
  void save_to(KeptCheckpoints& kept) const;

 private:
  /// Marks the attempts of `tier` at the checkpoint of `step` for which `is_it` returns true as
  /// complete.
  template <class Condition>
  void mark_complete(Step step, Tier tier, Condition is_it);
  /// Counts and forgets a failed attempt that an earlier controller has reported.
  void note_outcome(const SaveDoneRecord& done);

  const std::size_t most_;
  /// Attempts begun that neither failed nor were deleted, oldest first.
  std::vector<KeptCheckpoint> kept_;
  /// Attempts begun by an earlier controller, by tier.
  std::map<Tier, std::vector<CheckpointId>> earlier_;
  /// Steps and tiers of the checkpoints that an earlier controller has reported to the policies.
  std::set<std::pair<Step, Tier>> told_;
  std::uint64_t written_ = 0, failed_ = 0;
  std::optional<Step> failed_before_;
};

}  // namespace orrery::live
