#include "live/membership/state_parts.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/error.hpp"

namespace orrery::live::membership {
namespace {

/// Returns the instant at which the process was heard; nothing if it is no holder.
std::optional<Nanos> heard_at(const std::vector<Holder>& holders, const Seat& seat) {
  const auto found =
      std::lower_bound(holders.begin(), holders.end(), seat,
                       [](const Holder& holder, const Seat& at) { return holder.seat < at; });
  if (found == holders.end() || found->seat != seat) return {};
  return found->heard;
}

}  // namespace

void StateParts::add_distribution(const std::vector<Seat>& members) {
  if (!keepers_) return;
  const std::vector<std::uint32_t> keepers = keepers_(members);
  ensure(keepers.size() == members.size(), "expected a keeper for the part of each member");
  Distribution parts;
  for (std::size_t i = 0; i < members.size(); ++i) {
    parts.push_back({.owner = members[i], .keeper = members.at(keepers[i])});
  }
  distributions_.push_back(std::move(parts));
}

void StateParts::keep_newest() {
  if (distributions_.empty()) return;
  distributions_.erase(distributions_.begin(), std::prev(distributions_.end()));
}

std::size_t StateParts::count_copies(const std::vector<Holder>& holders) const {
  if (distributions_.empty()) return holders.size();
  std::size_t most = 0;
  for (const Distribution& parts : distributions_) {
    std::size_t fewest = 2;
    for (const Part& part : parts) {
      const bool owned = heard_at(holders, part.owner).has_value();
      const bool kept = part.keeper != part.owner && heard_at(holders, part.keeper).has_value();
      fewest = std::min(fewest, std::size_t{owned} + std::size_t{kept});
    }
    most = std::max(most, fewest);
  }
  return most;
}

/// An absent instant compares as older than any other.
std::optional<Nanos> StateParts::complete_since(const std::vector<Holder>& holders) const {
  std::optional<Nanos> newest;
  if (distributions_.empty()) {
    for (const Holder& holder : holders) newest = std::max(newest, std::optional(holder.heard));
  }
  for (const Distribution& parts : distributions_) {
    std::optional<Nanos> oldest = std::numeric_limits<Nanos>::max();
    for (const Part& part : parts) {
      const auto newer = std::max(heard_at(holders, part.owner), heard_at(holders, part.keeper));
      oldest = std::min(oldest, newer);
    }
    newest = std::max(newest, oldest);
  }
  return newest;
}

}  // namespace orrery::live::membership
