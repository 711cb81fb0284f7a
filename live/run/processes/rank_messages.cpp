// Messages of the ranks: the part of RankProcesses that passes their statuses to the coordinator.
#include <csignal>

#include "live/control/membership_wire.hpp"
#include "live/run/processes/crew.hpp"

namespace orrery::live {

RankProcesses::Received RankProcesses::record_message(const Incoming& incoming,
                                                      std::vector<RankEvent>& events) {
  const std::uint32_t rank = incoming.rank;
  const Seat from{rank, incoming.life};
  if (incoming.message->has_hello()) briefing_.mark_connected(rank);
  const bool is_fenced = coordinator_.is_fenced(from);
  if (incoming.message->has_failed()) {
    if (is_fenced) {
      agents_.signal(rank, SIGKILL);  // the process cannot return any more
    } else {
      on_failure(from, incoming.message->failed(), events);
    }
    return {};
  }
  Received received{.is_event = !is_fenced && !incoming.message->has_status()};
  const MemberStatus* status = nullptr;
  if (incoming.message->has_status()) status = &incoming.message->status();
  if (incoming.message->has_heartbeat()) status = &incoming.message->heartbeat().status();
  if (status == nullptr) return received;
  briefing_.record_status(from, *status);
  if (const auto spare = spares_.find(rank); spare != spares_.end()) {
    spare->second = *status;
    return received;
  }
  coordinator_.on_status(from_wire(*status), now());
  received.is_status = true;
  return received;
}

}  // namespace orrery::live
