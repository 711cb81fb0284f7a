// Which checkpoints a run has begun and what has come of them: the counts of the report, and what
// another controller must know to go on with them. Kept by RunCheckpoints; one thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/checkpoint/keeper.hpp"
#include "live/run/files/journal.hpp"

namespace orrery::live {

class CheckpointHistory {
 public:
  /// `training` names what is trained; of those that are whole the newest `most` are kept. Goes on
  /// where an earlier controller's `past` ends.
  CheckpointHistory(const std::string& training, std::size_t most, const Past& past);

  void begun(Step step, std::uint64_t attempt);
  /// False if policies have heard of that step's from an earlier controller.
  bool ended(Step step, bool whole);
  /// Those of an earlier controller, once.
  std::vector<CheckpointId> take_earlier() { return std::exchange(earlier_, {}); }

  std::uint64_t written() const { return written_; }
  std::uint64_t failed() const { return failed_; }
  void keep(KeptCheckpoints& kept) const;

 private:
  void note_outcome(Step step, bool whole);

  const std::size_t most_;
  std::vector<KeptCheckpoint> kept_;   ///< begun, and neither failed nor removed, oldest first
  std::vector<CheckpointId> earlier_;  ///< begun by an earlier controller
  std::set<Step> told_;                ///< the policies have heard of these from it
  std::uint64_t written_ = 0, failed_ = 0;
};

}  // namespace orrery::live
