// Messages between the ranks and the control core: the part of RankProcesses that is the loop of a
// live run. Each event goes to the function with its rule: ends of processes and members to crew,
// rounds of the membership to the coordinator.
#include <csignal>
#include <type_traits>
#include <variant>

#include "live/control/membership_wire.hpp"
#include "live/run/processes/crew.hpp"

namespace orrery::live {

std::vector<RankEvent> RankProcesses::wait(Clock::time_point deadline) {
  are_states_old_ = true;
  std::vector<RankEvent> events;
  for (const Incoming& incoming : agents_.receive_messages(deadline)) on_incoming(incoming, events);
  coordinator_.check_heartbeats(now());
  pass_happenings(events);
  start_replacements(events);
  return events;
}

void RankProcesses::on_incoming(const Incoming& incoming, std::vector<RankEvent>& events) {
  const std::uint32_t rank = incoming.rank;
  const Seat from{rank, incoming.life};
  if (incoming.ended) {
    const auto ours = sentences_.find(from);
    causes_[from] = ours == sentences_.end() ? *incoming.ended : ours->second;
  }
  if (dead_.contains(from)) return;
  if (incoming.ended) return note_end(from, events);
  // The agent may reconnect; otherwise the end of its process or its silence follows.
  if (!incoming.message) return;
  if (incoming.message->has_hello()) briefing_.mark_connected(rank);
  const bool is_fenced = coordinator_.is_fenced(from);
  if (incoming.message->has_failed()) {
    if (is_fenced) return agents_.signal(rank, SIGKILL);  // the process cannot return any more
    return on_failure(from, incoming.message->failed(), events);
  }
  if (incoming.message->has_status()) return on_status(from, incoming.message->status(), events);
  if (incoming.message->has_heartbeat())
    on_status(from, incoming.message->heartbeat().status(), events);
  if (!is_fenced) events.emplace_back(incoming);
}

void RankProcesses::on_status(const Seat& from, const MemberStatus& status,
                              std::vector<RankEvent>& events) {
  briefing_.record_status(from, status);
  if (const auto spare = spares_.find(from.rank); spare != spares_.end()) {
    spare->second = status;
    return;
  }
  coordinator_.on_status(from_wire(status), now());
  pass_happenings(events);
}

void RankProcesses::pass_happenings(std::vector<RankEvent>& events) {
  for (const membership::Happening& happening : coordinator_.drain_happenings()) {
    if (std::holds_alternative<membership::Revoked>(happening)) count_futile_epoch();
    if (std::holds_alternative<membership::Committed>(happening)) record_commit();
    const auto* formed = std::get_if<membership::Formed>(&happening);
    if (formed != nullptr) record_members(formed->members);
    std::visit(
        [&](const auto& each) {
          if constexpr (std::is_same_v<std::decay_t<decltype(each)>, membership::Lost>) {
            events.emplace_back(note_loss(each));
          } else {
            events.emplace_back(each);
          }
        },
        happening);
  }
}

/// The journal is written before any message that follows from the change is sent; the backend
/// writes the commits.
void RankProcesses::journal_epoch() {
  const membership::Journal now = coordinator_.journal();
  const membership::Journal& written = journal_.state().core;
  if (now.epoch == written.epoch && now.decided == written.decided) return;
  JournalRecord record;
  record.mutable_membership()->set_epoch(now.epoch);
  record.mutable_membership()->set_decided(now.decided);
  journal_.append_record(record);
}

void RankProcesses::send_directives() {
  journal_epoch();
  for (const std::uint32_t rank : coordinator_.peers()) {
    for (const ControllerMessage& message :
         briefing_.drain_messages(rank, coordinator_.directive(rank))) {
      agents_.send_message(rank, message);
    }
  }
}

}  // namespace orrery::live
