// End of a live run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "live/run/files/journal.hpp"
#include "live/run/losses/failure_records.hpp"
#include "live/run/observations/policy_clock.hpp"
#include "live/run/processes/crew.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

/// Hash that more than half of the ranks have sent, and the other ranks; an empty hash and all
/// ranks if no hash has a majority.
struct AgreedHash {
  std::string hash;
  std::vector<std::uint32_t> others;
};
/// Returns the hash on which most ranks agree. `hashes`: hash of the parameters by rank.
AgreedHash agreed_hash(const std::map<std::uint32_t, std::string>& hashes);

/// End of a live run: either complete, with the parameters that the ranks send, or early, with a
/// reason. Used by the step driver; single-threaded.
class RunEnd {
 public:
  /// Starts with a running run of `steps` steps.
  explicit RunEnd(Step steps) : steps_(steps) {}

  /// Requests the end after the current step, for `reason`, which must not be empty; unfinished()
  /// returns the reason. Call only while is_stopping() is false: a second reason replaces the
  /// first.
  void stop(const std::string& reason) { stop_reason_ = reason; }
  /// Returns true if stop() has requested the end.
  bool is_stopping() const { return !stop_reason_.empty(); }
  /// Records that `what`, a part of the training state or all of it, is lost: is_whole() is false
  /// from now on. A later call replaces the reason. Returns the reason why the run cannot continue,
  /// valid until the next call.
  const std::string& end_without_state(const std::string& what);
  /// Returns true if a part of the training state is lost.
  bool is_state_gone() const { return !state_gone_.empty(); }

  /// Records whether the job waits for GPUs: unfinished() then names this as the reason.
  void set_waiting(bool waits) { waits_ = waits; }

  /// Returns true if all steps are committed. `next`: first step that is not committed.
  bool are_steps_done(Step next) const { return next >= steps_; }
  /// Returns true if all steps are committed and the training state is complete.
  bool is_whole(Step next) const { return are_steps_done(next) && !is_state_gone(); }
  /// Takes the parameter hash from the journal's state, and does nothing else, if the state has
  /// one. Without it, collects the hashes of the ranks and ends the ranks
  /// (RankProcesses::finish_run(), at most 10 s), and adds the losses meanwhile to `failures`. If
  /// the hashes of most ranks are equal, writes this hash to the journal and marks all losses as
  /// resumed; ranks with another hash count as lost. `next`: number of committed steps. Call only
  /// while is_whole() holds.
  void gather_hashes(RankProcesses& crew, Step next, FailureRecords& failures, Journal& journal,
                     const PolicyClock& clock);

  /// Returns the reason why the run is not complete; empty if it is. While is_whole() is false: the
  /// lost state, otherwise the reason of stop(), otherwise that the job waits for GPUs
  /// (set_waiting()), otherwise the cause of the newest loss, otherwise that no rank is left.
  /// Otherwise: that no rank has sent its parameters or that they differ, otherwise
  /// `no_checkpoint`, the reason why the last checkpoint is missing. Call after gather_hashes() if
  /// is_whole() holds.
  std::string unfinished(Step next, const FailureRecords& failures,
                         const std::string& no_checkpoint) const;
  /// Writes the hash of the parameters into the report; nothing if no rank has sent it.
  void fill(Report& report) const;

 private:
  /// Records the hash on which most ranks agree, and the losses of the others.
  void record_hashes(const std::map<std::uint32_t, std::string>& hashes, FailureRecords& failures,
                     Nanos now);

  const Step steps_;
  bool waits_ = false;             ///< True if the job waits for GPUs.
  std::string stop_reason_;        ///< Reason of the operator; empty: none.
  std::string state_gone_;         ///< Lost part of the state; empty: none.
  std::string parameters_sha256_;  ///< Hash of the parameters; empty: the ranks sent none.
  /// Reason why there is no hash.
  std::string no_hash_ = "no rank has sent its parameters";
};

}  // namespace orrery::live
