// Loop of the ranks' processes: the part of RankProcesses that waits for messages and ends of
// processes. It passes each of them, and each event of the coordinator, to the function with its
// rule: ends and losses to rank_losses, messages to rank_messages, epochs and commits to crew.
#include <optional>
#include <type_traits>
#include <variant>

#include "live/run/processes/crew.hpp"

namespace orrery::live {

std::vector<RankEvent> RankProcesses::wait(Clock::time_point deadline) {
  are_states_old_ = true;
  std::vector<RankEvent> events;
  for (const Incoming& incoming : agents_.receive_messages(deadline)) {
    pass_incoming(incoming, events);
  }
  coordinator_.check_heartbeats(now());
  pass_happenings(events);
  start_replacements(events);
  return events;
}

void RankProcesses::pass_incoming(const Incoming& incoming, std::vector<RankEvent>& events) {
  const Seat from{incoming.rank, incoming.life};
  if (incoming.ended) {
    const auto ours = sentences_.find(from);
    causes_[from] = ours == sentences_.end() ? *incoming.ended : ours->second;
  }
  if (dead_.contains(from)) return;
  if (incoming.ended) {
    const std::optional<RankDied> died = note_end(from);
    pass_happenings(events);
    // Otherwise the coordinator knew the process and has reported its loss.
    if (dead_.insert(from).second && died) events.emplace_back(*died);
    return;
  }
  // The agent may reconnect; otherwise the end of its process or its silence follows.
  if (!incoming.message) return;
  const Received received = record_message(incoming, events);
  if (received.is_status) pass_happenings(events);
  if (received.is_event) events.emplace_back(incoming);
}

void RankProcesses::pass_happenings(std::vector<RankEvent>& events) {
  for (const membership::Happening& happening : coordinator_.drain_happenings()) {
    std::visit(
        [&](const auto& each) {
          using Each = std::decay_t<decltype(each)>;
          if constexpr (std::is_same_v<Each, membership::Lost>) {
            events.emplace_back(note_loss(each));
          } else {
            if constexpr (std::is_same_v<Each, membership::Revoked>) count_futile_epoch();
            if constexpr (std::is_same_v<Each, membership::Committed>) record_commit();
            if constexpr (std::is_same_v<Each, membership::Formed>) record_members(each.members);
            events.emplace_back(each);
          }
        },
        happening);
  }
}

}  // namespace orrery::live
