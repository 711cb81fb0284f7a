#include "policies/seam/part_changes.hpp"

namespace orrery {

std::map<Part, PartState> reported_parts(const std::set<Part>& lost,
                                         const std::map<Part, double>& slower,
                                         const std::map<Part, Removal>& removals) {
  std::map<Part, PartState> parts;
  for (const auto& [part, rate] : slower) parts[part].rate = rate;
  for (const auto& [part, removal] : removals) parts[part].removal = removal;
  for (const Part part : lost) {
    PartState& state = parts[part];
    state.health = Health::lost;
    state.rate = 0;
  }
  return parts;
}

bool is_same_report(const PartState& a, const PartState& b) {
  return a.health == b.health && a.rate == b.rate && a.removal == b.removal;
}

std::vector<PartChanged> part_changes(const std::map<Part, PartState>& known,
                                      const std::map<Part, PartState>& reported) {
  std::vector<PartChanged> changes;
  for (const auto& [part, state] : reported) {
    const auto was = known.find(part);
    if (was == known.end() || !is_same_report(was->second, state)) changes.push_back({part, state});
  }
  for (const auto& [part, state] : known) {
    if (!reported.contains(part)) changes.push_back({part, {}});
  }
  return changes;
}

}  // namespace orrery
