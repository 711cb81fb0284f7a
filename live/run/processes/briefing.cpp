#include "live/run/processes/briefing.hpp"

#include "live/control/membership_wire.hpp"

namespace orrery::live {

void Briefing::mark_connected(std::uint32_t rank) {
  said_.erase(rank);
  said_hardware_.erase(rank);
}

void Briefing::record_status(const membership::Seat& from, const MemberStatus& status) {
  const std::pair said(from.life, status.beat());
  auto& newest = heard_[from.rank];
  if (said <= newest) return;
  newest = said;
  addresses_[from.rank] = status.address();
}

std::vector<ControllerMessage> Briefing::drain_messages(
    std::uint32_t rank, const std::optional<membership::Directive>& directive) {
  std::vector<ControllerMessage> messages;
  if (const auto found = hardware_.find(rank); found != hardware_.end()) {
    std::string bytes = found->second.SerializeAsString();
    const auto before = said_hardware_.find(rank);
    if (before == said_hardware_.end() || before->second != bytes) {
      said_hardware_[rank] = std::move(bytes);
      *messages.emplace_back().mutable_hardware() = found->second;
    }
  }
  if (!directive) return messages;
  const auto newest = std::tuple(directive->to, directive->epoch, directive->number);
  const auto [before, first] = said_.emplace(rank, newest);
  if (!first && before->second == newest) return messages;
  before->second = newest;
  MemberDirective& wire = *messages.emplace_back().mutable_directive();
  wire = to_wire(*directive);
  for (const membership::Seat& member : directive->members) {
    wire.add_addresses(addresses_[member.rank]);
  }
  if (directive->work) *wire.mutable_plan() = plans_[rank];
  return messages;
}

}  // namespace orrery::live
