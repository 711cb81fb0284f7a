#include "policies/seam/away_parts.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace orrery {
namespace {

bool is_away(const PartState& state) {
  return state.health == Health::lost || state.removal.has_value();
}

}  // namespace

bool AwayParts::read_changes(const Observation& seen) {
  bool changed = false, relevant = false;
  for (const Event& event : seen.events) {
    const auto* const change = std::get_if<PartChanged>(&event);
    if (change == nullptr) continue;
    changed = true;
    relevant = relevant || !away_ || is_away(change->to) || away_->contains(change->part);
  }
  if (!changed && away_) return false;
  away_.emplace();
  for (const auto& [part, state] : seen.state.parts) {
    if (is_away(state)) away_->insert(part);
  }
  return relevant;
}

void AwayParts::save_to(ByteWriter& write) const {
  std::vector<std::uint32_t> parts;
  for (const Part part : away_.value_or(std::set<Part>())) {
    parts.push_back(static_cast<std::uint32_t>(part.kind));
    parts.push_back(part.index);
  }
  write(static_cast<std::uint8_t>(away_.has_value()));
  write(parts);
}

void AwayParts::load_from(ByteReader& read) {
  std::uint8_t is_known = 0;
  std::vector<std::uint32_t> parts;
  read(is_known);
  read(parts);
  away_.reset();
  if (is_known == 0) return;
  away_.emplace();
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    away_->insert({static_cast<PartKind>(parts[i]), parts[i + 1]});
  }
}

}  // namespace orrery
