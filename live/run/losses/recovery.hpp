// What becomes of the job when ranks are lost and when it is assigned anew. A loss is told once
// those that are left have given up what was before, all that are lost by then together; lost ranks
// are replaced where the job's settings or an assignment say so; an assignment comes true when all
// that it names have joined. Called by the live backend; one thread. Instants are the policy
// clock's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "live/run/observations/policy_clock.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/processes/rank_control.hpp"
#include "live/supervision.pb.h"
#include "policies/seam/gate.hpp"

namespace orrery::live {

class Recovery {
 public:
  /// All outlive this. Tells the events by `carrier`, and the gate that the membership is another.
  /// A job that is held waits so long to be assigned, `hold_limit`; nothing: nobody assigns it.
  Recovery(Placement& placement, RankControl& control, Carrier& carrier, DecisionGate& gate,
           const PolicyClock& clock, std::optional<Nanos> hold_limit)
      : placement_(placement),
        control_(control),
        carrier_(carrier),
        gate_(gate),
        clock_(clock),
        hold_limit_(hold_limit) {}

  /// The process in this seat has ended. True: the job counted on it, and its loss is to be told;
  /// else a replacement that never joined, or one whose loss an earlier controller had told.
  bool died(std::uint32_t seat, bool was_member);
  /// Some losses have not been told.
  bool untold() const { return !untold_.empty(); }
  /// Those are all that the job counts on.
  bool nobody_left() const { return untold_.size() == placement_.counted(); }
  void tell_losses();

  /// Processes are started where they are missing; until they are there the others go on as before,
  /// with step `next`.
  void assign(const Assign& assign, Step next);
  /// For this seat nobody is started any more.
  void give_up(std::uint32_t seat, Step next);
  /// The newest assignment, if all that it names are members.
  void come_true(const std::vector<std::uint32_t>& members, Step next);
  /// Nobody is there, and nobody will come.
  bool deserted() const;
  /// Members, by what an earlier controller knew, that are not among these: they are ended.
  std::vector<std::uint32_t> end_missing(const std::vector<std::uint32_t>& members);
  /// What an earlier controller was about to do: starts whoever is to come, ends whoever is to
  /// leave.
  void resume();

  /// The job stands still until it is assigned anew.
  bool held() const { return held_since_ != kNever; }
  /// And nobody will assign it. `shown`: whoever might has seen all that has happened.
  bool waits_in_vain(bool shown) const;

  /// For another controller, and by what an earlier one has told at that instant.
  void keep(JournalSnapshot& now) const { now.set_held_since(held_since_); }
  void restore(const JournalSnapshot& then) { held_since_ = then.held_since(); }
  void told(const Event& event, Nanos at);

 private:
  const JobInfo& job() const { return placement_.job(); }

  Placement& placement_;
  RankControl& control_;
  Carrier& carrier_;
  DecisionGate& gate_;
  const PolicyClock& clock_;
  const std::optional<Nanos> hold_limit_;
  std::vector<std::uint32_t> untold_;  ///< seats
  Nanos held_since_ = kNever;
};

}  // namespace orrery::live
