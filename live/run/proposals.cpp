#include "live/run/proposals.hpp"

namespace orrery::live {

void Proposals::propose_waiting() {
  if (!gate_.has_unagreed()) return;
  open_[++newest_] = gate_.drain_unagreed();
  put_(newest_);
}

void Proposals::apply_agreed(std::uint64_t number) {
  while (!open_.empty() && open_.begin()->first <= number) {
    const auto lot = open_.extract(open_.begin());
    for (const Decision& decision : lot.mapped()) gate_.apply_agreed(decision, clock_.now());
  }
}

void Proposals::drop_batches(std::uint64_t number) {
  while (!open_.empty() && open_.begin()->first <= number) {
    const auto lot = open_.extract(open_.begin());
    for (const Decision& decision : lot.mapped()) gate_.expire_decision(decision);
  }
}

void Proposals::reject_open(Carrier& carrier, const std::string& reason) {
  for (const auto& [number, lot] : std::exchange(open_, {})) {
    for (const Decision& decision : lot) {
      carrier.emit_event(Decided{decision.id, Outcome::rejected, reason});
    }
  }
}

}  // namespace orrery::live
