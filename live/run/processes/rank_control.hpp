// Control of a run's ranks apart from their work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"

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
  /// without this call. No effect on a rank of peers() and on one that is fenced.
  virtual void fence(std::uint32_t rank) = 0;
  /// Lets a fenced rank take part in the next epoch, and cancels its requested replacement. Call
  /// only for ranks of heard_again().
  virtual void readmit_rank(std::uint32_t rank) = 0;

  /// Returns true if the newest process of `rank` is fenced.
  virtual bool is_fenced(std::uint32_t rank) const = 0;
  /// Returns the fenced ranks that have sent a status since they were fenced, ascending.
  virtual std::vector<std::uint32_t> heard_again() const = 0;
  /// Returns true if the newest process of `rank` has not ended; false if the rank has had none.
  virtual bool is_running(std::uint32_t rank) const = 0;
  /// Returns true if the process of `rank` waits as a warm spare and has sent a status.
  virtual bool has_answering_spare(std::uint32_t rank) const = 0;
  /// Returns the process id of the rank's newest process that has connected; 0 if none has.
  virtual std::int64_t pid(std::uint32_t rank) const = 0;
  /// Returns true if an epoch is formed and not revoked: its members are linked.
  virtual bool is_epoch_formed() const = 0;
  /// Returns the ranks of the epoch, ascending, also while its members link; empty while a new
  /// epoch gathers its members and before the first.
  virtual std::vector<std::uint32_t> members() const = 0;
  /// Returns the ranks that send statuses, members or not, ascending.
  virtual std::vector<std::uint32_t> peers() const = 0;
  /// Returns the ranks of peers() that have sent no status for `span` nanoseconds, and the fenced
  /// ranks that are not heard again, ascending.
  virtual std::vector<std::uint32_t> silent(Nanos span) const = 0;
  /// Returns true while the run has the training state only with silent ranks of peers(), none of
  /// which counts as lost, or while waits_for_fenced(); see Coordinator.
  virtual bool all_silent() const = 0;
  /// Returns true while the ranks of peers() lack the training state of all committed steps, or a
  /// part of it, that fenced ranks hold: the next epoch waits for these.
  virtual bool waits_for_fenced() const = 0;
  /// Returns the longest silence for which all_silent() stays true, in nanoseconds.
  virtual Nanos patience() const = 0;
  /// Returns true if ranks of peers() hold the training state of all committed steps, also new
  /// processes that have received the state before their assignment is active, or if they do so
  /// with fenced ranks (Coordinator::has_fenced_holder()).
  virtual bool has_state_holder() const = 0;
};

}  // namespace orrery::live
