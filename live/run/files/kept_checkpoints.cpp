#include "live/run/files/kept_checkpoints.hpp"

#include <algorithm>

#include "policies/record/wire.hpp"

namespace orrery::live {
namespace {

template <class Condition>
void erase_attempts(KeptCheckpoints& kept, Condition is_it) {
  auto& begun = *kept.mutable_begun();
  begun.erase(std::remove_if(begun.begin(), begun.end(), is_it), begun.end());
}

auto find_attempt(KeptCheckpoints& kept, std::uint64_t attempt) {
  return std::find_if(
      kept.mutable_begun()->begin(), kept.mutable_begun()->end(),
      [attempt](const KeptCheckpoint& each) { return each.attempt() == attempt; });
}

/// Counts an outcome of the tier, and replaces the entry about the tier's newest failure.
void count_outcome(KeptCheckpoints& kept, Step step, TierRecord tier, bool whole) {
  if (whole) {
    kept.set_written(kept.written() + 1);
  } else {
    kept.set_failed(kept.failed() + 1);
  }
  erase_attempts(kept, [tier](const KeptCheckpoint& each) {
    return each.attempt() == 0 && each.tier() == tier;
  });
  if (!whole) begin_attempt(kept, step, 0, tier);
}

/// Forgets complete checkpoints beyond the newest, as the keeper does.
void retain_newest(KeptCheckpoints& kept, TierRecord tier, std::size_t most) {
  if (tier == TIER_MEMORY || tier == TIER_PEER) most = 1;
  const auto counts = [tier](const KeptCheckpoint& each) {
    return each.told() && each.tier() == tier;
  };
  auto told = static_cast<std::size_t>(
      std::count_if(kept.begun().begin(), kept.begun().end(), counts));
  erase_attempts(
      kept, [&](const KeptCheckpoint& each) { return counts(each) && told > most && told-- > 0; });
}

}  // namespace

void begin_attempt(KeptCheckpoints& kept, Step step, std::uint64_t attempt, TierRecord tier) {
  KeptCheckpoint& begun = *kept.add_begun();
  begun.set_step(step);
  begun.set_attempt(attempt);
  begun.set_tier(tier);
}

bool end_attempt(KeptCheckpoints& kept, std::uint64_t attempt, bool whole, std::size_t most) {
  const auto found = find_attempt(kept, attempt);
  if (found == kept.mutable_begun()->end()) return false;
  const bool was_complete = found->told();
  const Step step = found->step();
  const TierRecord tier = found->tier();
  if (whole) {
    found->set_told(true);
  } else {
    kept.mutable_begun()->erase(found);
  }
  if (was_complete) return false;
  count_outcome(kept, step, tier, whole);
  if (whole) retain_newest(kept, tier, most);
  return true;
}

void apply_outcome(KeptCheckpoints& kept, const SaveDoneRecord& done, std::size_t most) {
  const auto is_it = [&done](const KeptCheckpoint& each) {
    return each.step() == done.step() && each.tier() == done.tier() && !each.told() &&
           each.attempt() != 0;
  };
  const auto found = std::find_if(kept.begun().begin(), kept.begun().end(), is_it);
  if (found != kept.begun().end()) {
    end_attempt(kept, found->attempt(), done.durable(), most);
  } else {
    count_outcome(kept, done.step(), done.tier(), done.durable());
  }
}

void forget_attempt(KeptCheckpoints& kept, std::uint64_t attempt) {
  erase_attempts(kept,
                 [attempt](const KeptCheckpoint& each) { return each.attempt() == attempt; });
}

void forget_after(KeptCheckpoints& kept, Step step) {
  erase_attempts(kept, [step](const KeptCheckpoint& each) { return each.step() > step; });
}

bool has_attempt(const KeptCheckpoints& kept, std::uint64_t attempt) {
  return std::any_of(kept.begun().begin(), kept.begun().end(),
                     [attempt](const KeptCheckpoint& each) { return each.attempt() == attempt; });
}

bool is_complete(const KeptCheckpoints& kept, std::uint64_t attempt) {
  return std::any_of(
      kept.begun().begin(), kept.begun().end(),
      [attempt](const KeptCheckpoint& each) { return each.attempt() == attempt && each.told(); });
}

std::optional<Step> newest_failure(const KeptCheckpoints& kept, TierRecord tier) {
  for (const KeptCheckpoint& each : kept.begun()) {
    if (each.attempt() == 0 && each.tier() == tier) return each.step();
  }
  return {};
}

std::vector<NamedAttempt> complete_attempts(const KeptCheckpoints& kept, Step step) {
  std::vector<NamedAttempt> found;
  for (auto each = kept.begun().rbegin(); each != kept.begun().rend(); ++each) {
    if (!each->told() || each->step() > step) continue;
    found.push_back({each->step(), each->attempt(),
                     wire::to_enum<Tier>(each->tier(), TierRecord_IsValid, "tier")});
  }
  return found;
}

}  // namespace orrery::live
