#include "live/run/checkpoints/checkpoint_history.hpp"

#include <algorithm>

#include "policies/record/wire.hpp"

namespace orrery::live {
namespace {

Tier tier_of(const KeptCheckpoint& kept) {
  return wire::to_enum<Tier>(kept.tier(), TierRecord_IsValid, "tier");
}

}  // namespace

/// The keeper retains the newest complete checkpoints.
template <class Condition>
void CheckpointHistory::mark_complete(Step step, Tier tier, Condition is_it) {
  for (KeptCheckpoint& kept : kept_) {
    if (kept.step() == step && tier_of(kept) == tier && is_it(kept)) kept.set_told(true);
  }
  const std::size_t most = is_in_memory(tier) ? 1 : most_;
  const auto counts = [tier](const KeptCheckpoint& kept) {
    return kept.told() && tier_of(kept) == tier;
  };
  auto told = static_cast<std::size_t>(std::count_if(kept_.begin(), kept_.end(), counts));
  std::erase_if(
      kept_, [&](const KeptCheckpoint& kept) { return counts(kept) && told > most && told-- > 0; });
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
    if (commit.checkpoint() == 0) continue;
    record_begin(commit.step() + 1, commit.checkpoint(),
                 wire::to_enum<Tier>(commit.tier(), TierRecord_IsValid, "tier"));
  }
  for (const ObservationRecord& seen : past.seen) {
    for (const EventRecord& event : seen.events()) {
      if (event.has_save_done()) note_outcome(event.save_done());
    }
  }
  for (const KeptCheckpoint& kept : kept_) {
    earlier_[tier_of(kept)].push_back({training, kept.step(), kept.attempt()});
    if (kept.told()) told_.insert({kept.step(), tier_of(kept)});
  }
  for (const ObservationRecord& seen : past.seen) {
    for (const EventRecord& event : seen.events()) {
      if (!event.save_done().durable()) continue;
      const SaveDoneRecord& done = event.save_done();
      const Tier tier = wire::to_enum<Tier>(done.tier(), TierRecord_IsValid, "tier");
      mark_complete(done.step(), tier, [](const KeptCheckpoint&) { return true; });
      if (told_.insert({done.step(), tier}).second) ++written_;
    }
  }
}

void CheckpointHistory::note_outcome(const SaveDoneRecord& done) {
  const bool is_on_disk = done.tier() == TIER_LOCAL_DISK;
  if (is_on_disk) failed_before_ = done.durable() ? std::nullopt : std::optional(done.step());
  if (done.durable()) return;
  ++failed_;
  std::erase_if(kept_, [&done](const KeptCheckpoint& kept) {
    return kept.step() == done.step() && kept.tier() == done.tier() && !kept.told();
  });
}

void CheckpointHistory::record_begin(Step step, std::uint64_t attempt, Tier tier) {
  KeptCheckpoint& kept = kept_.emplace_back();
  kept.set_step(step);
  kept.set_attempt(attempt);
  kept.set_tier(wire::to_record<TierRecord>(tier));
}

bool CheckpointHistory::record_end(Step step, std::uint64_t attempt, bool whole) {
  const auto is_it = [attempt](const KeptCheckpoint& kept) { return kept.attempt() == attempt; };
  const auto found = std::find_if(kept_.begin(), kept_.end(), is_it);
  const Tier tier = found != kept_.end() ? tier_of(*found) : Tier::local_disk;
  if (whole) {
    mark_complete(step, tier, is_it);
  } else {
    std::erase_if(kept_, is_it);
  }
  if (told_.contains({step, tier})) return false;  // The checkpoint may have been deleted since.
  ++(whole ? written_ : failed_);
  return true;
}

bool CheckpointHistory::has_attempt(std::uint64_t attempt) const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [attempt](const KeptCheckpoint& kept) { return kept.attempt() == attempt; });
}

bool CheckpointHistory::is_complete(std::uint64_t attempt) const {
  return std::any_of(kept_.begin(), kept_.end(), [attempt](const KeptCheckpoint& kept) {
    return kept.attempt() == attempt && kept.told();
  });
}

void CheckpointHistory::forget_attempt(std::uint64_t attempt) {
  std::erase_if(kept_, [attempt](const KeptCheckpoint& kept) { return kept.attempt() == attempt; });
}

void CheckpointHistory::forget_after(Step step) {
  std::erase_if(kept_, [step](const KeptCheckpoint& kept) { return kept.step() > step; });
  std::erase_if(told_, [step](const auto& told) { return told.first > step; });
}

std::vector<CheckpointId> CheckpointHistory::take_earlier(Tier tier) {
  auto earlier = earlier_.extract(tier);
  return earlier ? std::move(earlier.mapped()) : std::vector<CheckpointId>();
}

std::vector<CheckpointHistory::Complete> CheckpointHistory::complete_attempts(Step step) const {
  std::vector<Complete> found;
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    if (kept->told() && kept->step() <= step) {
      found.push_back({kept->step(), kept->attempt(), tier_of(*kept)});
    }
  }
  return found;
}

void CheckpointHistory::save_to(KeptCheckpoints& kept) const {
  kept.mutable_begun()->Add(kept_.begin(), kept_.end());
  kept.set_written(written_);
  kept.set_failed(failed_);
}

}  // namespace orrery::live
