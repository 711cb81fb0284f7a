// Fuzzer: any bytes as messages of the control plane. Messages that pass the border's check go to
// the control core of a run of four ranks, whose answers must pass the check of the other border;
// the members follow their directives at once. Nothing may throw. Each message is preceded by two
// bytes: its sender or receiver, and its size.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <google/protobuf/stubs/logging.h>

#include "live/control/membership_wire.hpp"
#include "live/control/message_check.hpp"
#include "live/data.pb.h"
#include "live/membership/coordinator.hpp"
#include "live/membership/member.hpp"

namespace {

using namespace orrery;

constexpr std::uint32_t kRanks = 4;

class FourRanks {
 public:
  FourRanks() {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) members_.emplace_back(seat(rank));
  }

  void to_controller(std::uint32_t rank, const std::string& bytes) {
    live::AgentMessage message;
    if (!message.ParseFromString(bytes) || live::fault_of(message, seat(rank))) return;
    if (message.has_status()) coordinator_.on_status(live::from_wire(message.status()), ++now_);
    if (message.has_heartbeat()) {
      coordinator_.on_status(live::from_wire(message.heartbeat().status()), ++now_);
    }
    go_on();
  }

  void to_agent(std::uint32_t rank, const std::string& bytes) {
    live::ControllerMessage message;
    if (!message.ParseFromString(bytes) || live::fault_of(message, rank, kRanks)) return;
    if (message.has_directive()) members_[rank].on_directive(live::from_wire(message.directive()));
    obey(members_[rank]);
  }

  /// Real behaviour in between: all members send their status, and follow their directives.
  void go_on() {
    for (live::membership::Member& member : members_) {
      coordinator_.on_status(member.status(), ++now_);
    }
    coordinator_.check_heartbeats(++now_);
    coordinator_.drain_happenings();
    if (coordinator_.is_ready()) coordinator_.start_step();
    for (const std::uint32_t rank : coordinator_.peers()) {
      const auto said = coordinator_.directive(rank);
      if (!said) continue;
      live::ControllerMessage message;
      live::MemberDirective& wire = *message.mutable_directive();
      wire = live::to_wire(*said);
      wire.mutable_plan()->set_step(said->committed);
      for (std::size_t i = 0; i < said->members.size(); ++i) {
        wire.add_addresses("unix:/socket");
        wire.mutable_plan()->add_shares()->set_count(1);
      }
      if (live::fault_of(message, rank, kRanks)) std::abort();  // our own word is refused
      members_.at(rank).on_directive(live::from_wire(wire));
      obey(members_[rank]);
    }
  }

 private:
  static live::membership::Seat seat(std::uint32_t rank) { return {rank, 0}; }

  static void obey(live::membership::Member& member) {
    const live::membership::Task task = member.task();
    switch (task.kind) {
      case live::membership::Task::Kind::none: break;
      case live::membership::Task::Kind::apply: member.mark_applied(); break;
      case live::membership::Task::Kind::enter: member.mark_listening(task.epoch); break;
      case live::membership::Task::Kind::link: member.mark_linked(task.epoch); break;
      case live::membership::Task::Kind::work: member.mark_reduced(task.epoch, task.step); break;
    }
  }

  std::vector<live::membership::Member> members_;
  live::membership::Coordinator coordinator_{{.ranks = kRanks}};
  Nanos now_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const google::protobuf::LogSilencer quiet;
  FourRanks run;
  run.go_on();
  while (size >= 2) {
    const std::uint32_t rank = data[0] % kRanks;
    const bool up = data[0] < 128;
    const std::size_t length = std::min<std::size_t>(data[1], size - 2);
    const std::string bytes(reinterpret_cast<const char*>(data + 2), length);
    live::Piece().ParseFromString(bytes);
    up ? run.to_controller(rank, bytes) : run.to_agent(rank, bytes);
    data += 2 + length;
    size -= 2 + length;
  }
  return 0;
}
