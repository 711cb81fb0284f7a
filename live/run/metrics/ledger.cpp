#include "live/run/metrics/ledger.hpp"

namespace orrery::live {

void Ledger::record_execution(Step step, std::uint64_t id) { ++open_[step][id]; }

void Ledger::record_commit(Step step, std::uint64_t micro_batches) {
  std::uint64_t once = 0;
  for (const auto& [id, times] : open_[step]) {
    if (id >= micro_batches) {
      // An unknown micro-batch counts as repeated: its gradient replaces another one's.
      repeated_ += times;
      continue;
    }
    ++once;
    repeated_ += times - 1;
  }
  lost_ += micro_batches - once;
  recomputed_ += thrown_away_[step];
  open_.erase(step);
  thrown_away_.erase(step);
}

void Ledger::record_discard(Step step) {
  for (const auto& [id, times] : open_[step]) thrown_away_[step] += times;
  open_.erase(step);
}

}  // namespace orrery::live
