#include "live/run/account/ledger.hpp"

namespace orrery::live {

void Ledger::executed(Step step, std::uint64_t id) { ++open_[step][id]; }

void Ledger::committed(Step step) {
  std::uint64_t once = 0;
  for (const auto& [id, times] : open_[step]) {
    if (id >= per_step_) {
      repeated_ += times;  // no such micro-batch: its gradient counts for another one
      continue;
    }
    ++once;
    repeated_ += times - 1;
  }
  lost_ += per_step_ - once;
  recomputed_ += thrown_away_[step];
  open_.erase(step);
  thrown_away_.erase(step);
}

void Ledger::discarded(Step step) {
  for (const auto& [id, times] : open_[step]) thrown_away_[step] += times;
  open_.erase(step);
}

void Ledger::restore(std::uint64_t lost, std::uint64_t repeated, std::uint64_t recomputed) {
  lost_ = lost;
  repeated_ = repeated;
  recomputed_ = recomputed;
}

}  // namespace orrery::live
