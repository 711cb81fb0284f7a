// What each rank is to be told: its directive with the plan of the step and the addresses of its
// peers, and its hardware. Each is said once to a process, and again to one that has said hello
// since. Called by the crew; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "live/control.pb.h"
#include "policies/membership/protocol.hpp"

namespace orrery::live {

class Briefing {
 public:
  /// A process of that rank says hello: it has been told nothing yet.
  void greeted(std::uint32_t rank);
  /// Where others find that rank, by its newest status: two threads of an agent send them, and an
  /// older one may come after a newer one.
  void hear(const membership::Seat& from, const MemberStatus& status);
  /// For the directives of the step that begins.
  void set_plans(std::map<std::uint32_t, StepPlan> plans) { plans_ = std::move(plans); }
  /// How that rank's hardware stands from now on.
  void set_hardware(std::uint32_t rank, const Hardware& hardware) { hardware_[rank] = hardware; }

  /// What that rank has not been told yet, in this order; `directive`: the coordinator's newest.
  std::vector<ControllerMessage> take(std::uint32_t rank,
                                      const std::optional<membership::Directive>& directive);

 private:
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint64_t>> heard_;  ///< life and beat
  std::map<std::uint32_t, std::string> addresses_;  ///< by rank, of the newest epoch entered
  std::map<std::uint32_t, StepPlan> plans_;         ///< of the step under way
  /// Newest directive said: seat, epoch, number.
  std::map<std::uint32_t, std::tuple<membership::Seat, std::uint64_t, std::uint64_t>> said_;
  std::map<std::uint32_t, Hardware> hardware_;
  std::map<std::uint32_t, std::string> said_hardware_;  ///< as it was sent
};

}  // namespace orrery::live
