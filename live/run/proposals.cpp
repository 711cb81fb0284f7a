#include "live/run/proposals.hpp"

namespace orrery::live {

void Proposals::put() {
  if (!gate_.has_unagreed()) return;
  open_[++newest_] = gate_.take_unagreed();
  put_(newest_);
}

void Proposals::agreed(std::uint64_t number) {
  while (!open_.empty() && open_.begin()->first <= number) {
    const auto lot = open_.extract(open_.begin());
    for (const Decision& decision : lot.mapped()) gate_.agreed(decision, clock_.now());
  }
}

void Proposals::dropped(std::uint64_t number) {
  while (!open_.empty() && open_.begin()->first <= number) {
    const auto lot = open_.extract(open_.begin());
    for (const Decision& decision : lot.mapped()) gate_.not_agreed(decision);
  }
}

void Proposals::reject(Carrier& carrier, const std::string& reason) {
  for (const auto& [number, lot] : std::exchange(open_, {})) {
    for (const Decision& decision : lot) {
      carrier.happen(Decided{decision.id, Outcome::rejected, reason});
    }
  }
}

}  // namespace orrery::live
