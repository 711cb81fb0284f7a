// Messages that each rank must receive from the controller.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "live/control.pb.h"
#include "live/membership/protocol.hpp"

namespace orrery::live {

/// Source of the messages for the ranks: the newest directive, with the plan of the step and the
/// addresses of the peers, and the state of the hardware. Each message is returned once per stream:
/// again after the rank's process has said hello. Used by RankProcesses; single-threaded.
class Briefing {
 public:
  /// Records that a process of `rank` has said hello: all messages are due again.
  void mark_connected(std::uint32_t rank);
  /// Records the address of `from` in its newest status. Ignores a status that is not newer by
  /// incarnation and heartbeat number: two threads of an agent send statuses, so that an older
  /// status may arrive after a newer one.
  void record_status(const membership::Seat& from, const MemberStatus& status);
  /// Replaces the plans by those of the step that begins, by rank; the directives to work carry
  /// them.
  void set_plans(std::map<std::uint32_t, StepPlan> plans) { plans_ = std::move(plans); }
  /// Sets the state of the rank's hardware. An equal state is not sent again.
  void set_hardware(std::uint32_t rank, const Hardware& hardware) { hardware_[rank] = hardware; }

  /// Returns the messages that `rank` has not received yet, in the order of sending: its hardware
  /// if set_hardware() has changed the state, then the directive; empty if none is due. Counts them
  /// as received until mark_connected(). `directive`: the coordinator's newest directive for the
  /// rank; nothing if the rank has none.
  std::vector<ControllerMessage> drain_messages(std::uint32_t rank,
                                      const std::optional<membership::Directive>& directive);

 private:
  /// Incarnation and heartbeat number of the newest status.
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint64_t>> heard_;
  /// Address of each rank in the newest epoch begun.
  std::map<std::uint32_t, std::string> addresses_;
  std::map<std::uint32_t, StepPlan> plans_;  ///< Plans of the current step.
  /// Newest directive sent: process, epoch, number.
  std::map<std::uint32_t, std::tuple<membership::Seat, std::uint64_t, std::uint64_t>> said_;
  std::map<std::uint32_t, Hardware> hardware_;
  /// Newest hardware message sent, serialized.
  std::map<std::uint32_t, std::string> said_hardware_;
};

}  // namespace orrery::live
