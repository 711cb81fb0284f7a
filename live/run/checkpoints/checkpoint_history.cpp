#include "live/run/checkpoints/checkpoint_history.hpp"

#include <algorithm>

namespace orrery::live {

/// The keeper retains the newest complete checkpoints.
template <class Condition>
void CheckpointHistory::mark_complete(Step step, Condition is_it) {
  for (KeptCheckpoint& kept : kept_) {
    if (kept.step() == step && is_it(kept)) kept.set_told(true);
  }
  std::size_t told = 0;
  for (const KeptCheckpoint& kept : kept_) told += kept.told() ? 1 : 0;
  std::erase_if(
      kept_, [&](const KeptCheckpoint& kept) { return kept.told() && told > most_ && told-- > 0; });
}

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
      mark_complete(event.save_done().step(), [](const KeptCheckpoint&) { return true; });
      if (told_.insert(event.save_done().step()).second) ++written_;
    }
  }
}

void CheckpointHistory::record_begin(Step step, std::uint64_t attempt) {
  KeptCheckpoint& kept = kept_.emplace_back();
  kept.set_step(step);
  kept.set_attempt(attempt);
}

bool CheckpointHistory::record_end(Step step, std::uint64_t attempt, bool whole) {
  const auto is_it = [attempt](const KeptCheckpoint& kept) { return kept.attempt() == attempt; };
  if (whole) {
    mark_complete(step, is_it);
  } else {
    std::erase_if(kept_, is_it);
  }
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

std::vector<std::pair<Step, std::uint64_t>> CheckpointHistory::complete_attempts(Step step) const {
  std::vector<std::pair<Step, std::uint64_t>> found;
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    if (kept->told() && kept->step() <= step) found.emplace_back(kept->step(), kept->attempt());
  }
  return found;
}

void CheckpointHistory::save_to(KeptCheckpoints& kept) const {
  kept.mutable_begun()->Add(kept_.begin(), kept_.end());
  kept.set_written(written_);
  kept.set_failed(failed_);
}

}  // namespace orrery::live
