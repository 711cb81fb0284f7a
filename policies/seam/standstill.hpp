// Guard against endless calls at one instant. Every decision causes an observation with its
// outcome, so a policy that answers each outcome with another decision would stop the policy clock.
// Used by drive() and FallbackPolicy. One thread.
#pragma once

#include <algorithm>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Counter of consecutive calls at one instant that decide something or request another call at
/// that instant.
class StandstillGuard {
 public:
  /// Counts one call with its decisions, in the order of the calls; a later instant, or a call
  /// without decisions and without a wake-up at or before `seen.now`, starts the count anew. Throws
  /// bad_input after a thousand counted calls in a row at one instant, with the reason of the
  /// newest rejection in the run; without any rejection, with a hint if `decisions` has a decision
  /// for a later step.
  void check_progress(const Observation& seen, const DecisionList& decisions) {
    for (const Event& event : seen.events) {
      const auto* outcome = std::get_if<Decided>(&event);
      if (outcome != nullptr && outcome->status == Outcome::rejected) rejected_ = outcome->reason;
    }
    const bool at_once = std::any_of(decisions.wake_times().begin(), decisions.wake_times().end(),
                                     [&seen](Nanos at) { return at <= seen.now; });
    const bool decided = !decisions.items().empty() || at_once;
    count_ = seen.now == instant_ && decided ? count_ + 1 : 0;
    instant_ = seen.now;
    if (count_ < kMostInARow) return;
    throw Error(ErrorKind::bad_input,
                fmt::format("the policies decide without end: {} times in a row at {} s{}",
                            kMostInARow, to_seconds(seen.now), hint(decisions)));
  }

 private:
  std::string hint(const DecisionList& decisions) const {
    if (!rejected_.empty()) return "; reason of the last rejection: " + rejected_;
    const bool later = std::any_of(decisions.items().begin(), decisions.items().end(),
                                   [](const Decision& each) { return each.at_step > 0; });
    if (!later) return {};
    return "; a decision for a later step is reported as applied at once but changes the job only "
           "from that step on: remember the decision until then";
  }

  static constexpr int kMostInARow = 1000;
  Nanos instant_ = -1;
  int count_ = 0;
  std::string rejected_;
};

}  // namespace orrery
