// Control of a run's ranks apart from their work.
#pragma once

#include <cstdint>
#include <string>

#include "live/run/processes/rank_states.hpp"

namespace orrery::live {

/// Interface of RankProcesses for fault injection, failure detection and recovery. A `rank` is the
/// number of a process here, which Placement calls its seat; it must be below the number of seats.
/// Single-threaded. Methods that start or signal processes throw as AgentProcesses.
class RankControl {
 public:
  virtual ~RankControl() = default;

  /// Requests a replacement for a lost rank; does not block. A running warm spare becomes a
  /// candidate instead, see RankProcesses::replace(). If replacements die before they join, the
  /// next ones are started after growing pauses (see Replacements). Does nothing while another
  /// process of the rank lives or a replacement is requested.
  virtual void replace(std::uint32_t rank) = 0;
  /// Cancels the request for a replacement of `rank`, if any, and kills its process, if it runs; a
  /// fenced process that is heard again is ordered to stop instead.
  /// The count of attempts begins anew. No effect on a warm spare; a fenced process whose state may
  /// be needed is not killed (Coordinator::may_need_fenced()).
  virtual void withdraw_rank(std::uint32_t rank) = 0;
  /// Sends signal `number` to the process of `rank`, if it runs; see AgentGroup::signal().
  virtual void signal(std::uint32_t rank, int number) = 0;
  /// Kills the process of `rank`; no effect if it does not run. `cause` is the reported cause of
  /// the loss.
  virtual void end(std::uint32_t rank, const std::string& cause) = 0;
  /// Links the members again, in a new epoch, which abandons the current step; see
  /// Coordinator::renew_epoch() for the calls without effect.
  virtual void renew_epoch() = 0;

  /// Fences the running process of `rank`: it belongs to no epoch, its messages are ignored, and it
  /// is not ended before a replacement of `rank` can start. Ranks that fall silent are fenced
  /// without this call. No effect on a peer (RankStates) and on a rank that is fenced.
  virtual void fence(std::uint32_t rank) = 0;
  /// Lets a fenced rank take part in the next epoch, and cancels its requested replacement. Call
  /// only for ranks that are heard again (RankStates).
  virtual void readmit_rank(std::uint32_t rank) = 0;

  /// Returns the states of all ranks now; silence as of the last event or order. The reference
  /// stays valid, but a later call may change the value: read what is needed before an order, or
  /// call again.
  virtual const RankStates& states() const = 0;
};

}  // namespace orrery::live
