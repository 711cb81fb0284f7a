// Decisions that need the agreement of all ranks.
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

/// Batches of decisions that all ranks must follow from the same step on. Each batch is proposed to
/// the ranks under a number and takes effect once all ranks hold it; a change of membership aborts
/// it. Used by the live backend; single-threaded.
class Proposals {
 public:
  /// Starts without proposals. Gate and clock must outlive this object. `put`: proposes a number to
  /// the ranks; numbers grow. `newest`: newest number of an earlier controller; the first batch has
  /// the number after it.
  Proposals(DecisionGate& gate, const PolicyClock& clock, std::function<void(std::uint64_t)> put,
            std::uint64_t newest = 0)
      : gate_(gate), clock_(clock), put_(std::move(put)), newest_(newest) {}

  /// Returns true if a proposed batch is neither agreed upon nor dropped yet.
  bool has_open() const { return !open_.empty(); }
  /// Takes the decisions that wait at the gate and proposes them to the ranks as one batch with the
  /// next number; no effect if none waits. Call only while an epoch is formed: see
  /// Coordinator::propose_decision().
  void propose_waiting();
  /// Passes the decisions of the open batches up to `number`, which all ranks hold, to the gate in
  /// their order and removes the batches. No effect without such a batch.
  void apply_agreed(std::uint64_t number);
  /// Reports the decisions of the open batches up to `number`, which no rank follows, as expired
  /// and removes the batches. No effect without such a batch.
  void drop_batches(std::uint64_t number);
  /// Rejects all open batches with `reason`, for example because the run is over: reports every
  /// decision through `carrier`. No effect on the decisions that still wait at the gate: see
  /// DecisionGate::close().
  void reject_open(Carrier& carrier, const std::string& reason);

 private:
  DecisionGate& gate_;
  const PolicyClock& clock_;
  const std::function<void(std::uint64_t)> put_;
  std::map<std::uint64_t, std::vector<Decision>> open_;  ///< Open batches by number.
  std::uint64_t newest_;
};

}  // namespace orrery::live
