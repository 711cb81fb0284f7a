// Decisions that all ranks must follow from one step on: each lot of them is put to the ranks under
// a number, and holds once all have it; with another membership nobody follows it. Called by the
// live backend; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "live/run/observations/policy_clock.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

class Proposals {
 public:
  /// Gate and clock outlive this. `put`: to the ranks, under that number; numbers grow.
  Proposals(DecisionGate& gate, const PolicyClock& clock, std::function<void(std::uint64_t)> put)
      : gate_(gate), clock_(clock), put_(std::move(put)) {}

  /// Of an earlier controller's the newest had that number.
  void go_on_after(std::uint64_t number) { newest_ = number; }

  bool open() const { return !open_.empty(); }
  /// What waits at the gate.
  void put();
  /// All ranks have those up to that number.
  void agreed(std::uint64_t number);
  /// Nobody follows those up to that number.
  void dropped(std::uint64_t number);
  /// The run is over before they are agreed upon.
  void reject(Carrier& carrier, const std::string& reason);

 private:
  DecisionGate& gate_;
  const PolicyClock& clock_;
  const std::function<void(std::uint64_t)> put_;
  std::map<std::uint64_t, std::vector<Decision>> open_;  ///< by number
  std::uint64_t newest_ = 0;
};

}  // namespace orrery::live
