#include "live/run/checkpoints/checkpoint_history.hpp"

#include <algorithm>

namespace orrery::live {

CheckpointHistory::CheckpointHistory(const std::string& training, std::size_t most,
                                     const Past& past)
    : most_(most) {
  if (past.snapshot) {
    const KeptCheckpoints& then = past.snapshot->checkpoints();
    kept_.assign(then.begun().begin(), then.begun().end());
    written_ = then.written();
    failed_ = then.failed();
  }
  for (const JournalCommit& commit : past.commits) {
    if (commit.checkpoint() != 0) record_begin(commit.step() + 1, commit.checkpoint());
  }
  for (const KeptCheckpoint& kept : kept_) {
    earlier_.push_back({training, kept.step(), kept.attempt()});
    if (kept.told()) told_.insert(kept.step());
  }
  for (const ObservationRecord& seen : past.seen) {
    for (const EventRecord& event : seen.events()) {
      if (!event.save_done().durable()) continue;
      note_outcome(event.save_done().step(), true);
      if (told_.insert(event.save_done().step()).second) ++written_;
    }
  }
}

void CheckpointHistory::record_begin(Step step, std::uint64_t attempt) {
  KeptCheckpoint& kept = kept_.emplace_back();
  kept.set_step(step);
  kept.set_attempt(attempt);
}

bool CheckpointHistory::record_end(Step step, bool whole) {
  note_outcome(step, whole);
  if (told_.contains(step)) return false;  // The checkpoint may have been deleted since.
  ++(whole ? written_ : failed_);
  return true;
}

bool CheckpointHistory::has_attempt(std::uint64_t attempt) const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [attempt](const KeptCheckpoint& kept) { return kept.attempt() == attempt; });
}

void CheckpointHistory::forget_after(Step step) {
  std::erase_if(kept_, [step](const KeptCheckpoint& kept) { return kept.step() > step; });
  told_.erase(told_.upper_bound(step), told_.end());
}

std::uint64_t CheckpointHistory::complete_attempt(Step step) const {
  std::uint64_t attempt = 0;
  for (const KeptCheckpoint& kept : kept_) {
    if (kept.step() == step && kept.told()) attempt = kept.attempt();
  }
  return attempt;
}

/// The keeper retains the newest complete checkpoints.
void CheckpointHistory::note_outcome(Step step, bool whole) {
  std::erase_if(kept_, [&](const KeptCheckpoint& kept) { return kept.step() == step && !whole; });
  for (KeptCheckpoint& kept : kept_) {
    if (kept.step() == step) kept.set_told(true);
  }
  std::size_t told = 0;
  for (const KeptCheckpoint& kept : kept_) told += kept.told() ? 1 : 0;
  std::erase_if(
      kept_, [&](const KeptCheckpoint& kept) { return kept.told() && told > most_ && told-- > 0; });
}

void CheckpointHistory::save_to(KeptCheckpoints& kept) const {
  kept.mutable_begun()->Add(kept_.begin(), kept_.end());
  kept.set_written(written_);
  kept.set_failed(failed_);
}

}  // namespace orrery::live
