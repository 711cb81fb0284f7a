// Membership and account of the ranks of a user's program: who is a member of which epoch, which
// ranks were lost and why, the time that each loss cost. Used by program_run, which talks to the
// ranks. Plain state without processes. One thread; seconds of one monotonic clock, which the ranks
// share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/group/program_epoch.hpp"

namespace orrery::live {

/// Exit code of a run that completed without all of its ranks.
constexpr int kRanksMissing = 6;

/// Loss of one rank.
struct ProgramLoss {
  std::size_t rank = 0;
  double time_s = 0;             ///< instant at which the loss was known
  std::string cause;             ///< for example "killed by signal 9 (Killed)"
  std::optional<double> lost_s;  ///< duration of the interrupted step minus the median step, at
                                 ///< least 0, of the rank that lost most; nothing if no survivor
                                 ///< has finished a step since, except its first one
  std::optional<double> replaced_s;  ///< seconds until a new process had the rank's place; nothing
                                     ///< if the rank is missing
};

/// Start of a rank's process, up to its first process group.
struct ProgramStart {
  std::size_t rank = 0;
  bool is_warm = false;  ///< forked from a process that had imported PyTorch
  double took_s = 0;     ///< seconds up to the first process group
};

/// Time of the ranks of a run in seconds, summed over the ranks. A part that no rank spends in
/// steps (ends, lost ranks) is in none of them.
struct ProgramTime {
  double starting = 0;  ///< up to the end of a process's first step
  double training = 0;  ///< later steps without their other parts
  double input = 0;     ///< in data loaders, of later steps
  double recovery = 0;  ///< interrupted steps beyond the median
};

/// Reaction of the run to the end or the leave of a rank.
enum class Reaction : std::uint8_t {
  none,
  new_epoch,  ///< the members have changed: all must hear of the next epoch
  end_run,    ///< a rank ended that the others cannot do without
};

/// Account of a run that a successor of its `orrery run` continues.
struct RunAccount {
  ProgramEpoch epoch;
  std::map<std::size_t, int> ended;  ///< exit codes of the ranks that have ended
  std::vector<ProgramLoss> losses;   ///< losses of these, and of ranks that were replaced
  ProgramTime time;
  std::uint64_t newest_snapshot = 0;  ///< step
};

/// States of the ranks of one run. Each `rank` must be below the number of ranks, which is not
/// checked. A rank is attached once its fault-tolerant group has said hello; a member has neither
/// left nor ended.
class RunBook {
 public:
  /// Starts with all `ranks` ranks, at least one, as members of epoch 0, which begins at `now_s`,
  /// and none attached. `heartbeat_limit_s`: see silent_ranks().
  RunBook(std::size_t ranks, double heartbeat_limit_s, double now_s);

  /// Continues the account of an earlier `orrery run`. Call first.
  void take_over(const RunAccount& account);
  /// Returns the account for a successor.
  RunAccount run_account() const;
  /// Records that an attached rank of an earlier `orrery run` has done `steps` steps, and goes on.
  /// The next step of the rank counts as its first one for the medians.
  void record_taken(std::size_t rank, std::uint64_t steps, double now_s);
  /// Records that the rank is attached, and a heartbeat of the rank at `now_s`.
  void record_hello(std::size_t rank, double now_s);
  /// Records that a process of the rank has reached its first process group `took_s` after its
  /// start.
  void record_start(std::size_t rank, bool is_warm, double took_s) {
    starts_.push_back({rank, is_warm, took_s});
  }
  /// Records a heartbeat of the rank at `now_s`.
  void record_beat(std::size_t rank, double now_s);
  /// Records that the rank runs without the fault-tolerant group, because of `reason`, which must
  /// not be empty; the first reason of any rank is kept. Each later loss ends the run.
  void record_plain(std::size_t rank, const std::string& reason);
  /// Records that the rank has agreed with the others in epoch `epoch`, in place of an earlier
  /// epoch.
  void record_settled(std::size_t rank, std::uint64_t epoch);
  /// Records an operation that failed in epoch `epoch`, perhaps because the connection was cut. If
  /// no new epoch begins within a second, is_cut_due() asks for one. No effect if `epoch` is not
  /// the current epoch or a failure in it is recorded already.
  void record_problem(std::uint64_t epoch, double now_s);
  /// Records the end of optimizer step `step`, counted from 1, at `end_s`, and the seconds spent on
  /// input so far. If ranks were lost during the step, updates ProgramLoss::lost_s instead of the
  /// median. Call with ascending steps of each rank.
  void record_step(std::size_t rank, std::uint64_t step, double end_s, double input_s);
  /// Records the bytes that the rank's process has sent for gradients so far.
  void record_sent_bytes(std::size_t rank, double bytes) { ranks_[rank].sent_bytes = bytes; }
  /// Records that the rank has left: no other rank needs its results. Returns none if all other
  /// attached members have settled in the current epoch and no failed operation is open; otherwise
  /// new_epoch.
  Reaction record_left(std::size_t rank);
  /// Records the end of the rank's process. Code 0, the end of a rank that has left, the end of the
  /// last rank and all ends after record_ending() are no losses. Returns for a loss end_run if
  /// record_plain() was called, otherwise new_epoch; as record_left() for an attached member that
  /// ended with code 0 while others run, unless record_ending() was called; otherwise none. Call
  /// once for each rank.
  Reaction record_exit(std::size_t rank, int code, const std::string& description, double now_s);

  /// Records that a new, attached process has taken the place of the rank, which was lost: the rank
  /// is a member again from the next epoch on. Returns the seconds since its newest loss; 0 without
  /// one.
  double record_joined(std::size_t rank, double now_s);
  /// Records that the rank has received `count` examples of lost ranks so far.
  void record_dealt(std::size_t rank, std::uint64_t count) { ranks_[rank].dealt = count; }
  /// Records that the program has named its state (orrery.torch.state). `is_whole`: every rank has
  /// all of the state, so that one rank can be replaced.
  void record_state(bool is_whole);
  /// Records the folder of snapshots that the program has named; empty: the program has named
  /// none, and its snapshots end with the run.
  void record_snapshot_folder(const std::string& folder) { snapshot_folder_ = folder; }
  /// Records that all ranks continue after step `step` of an earlier attempt.
  void record_resumed(std::uint64_t step) { resumed_step_ = step; }
  /// Records that the snapshot after step `step` is complete.
  void record_snapshot(std::uint64_t step) { newest_snapshot_ = step; }

  /// Records that the run ends its ranks: their ends are no losses any more.
  void record_ending() { is_ending_ = true; }

  /// Begins the next epoch with the present members(), and forgets a failed operation.
  /// `is_reset`: all groups connect anew; otherwise those whose members have changed.
  void begin_epoch(bool is_reset = false);
  /// Returns true if an operation failed in the current epoch at least a second before `now_s`, so
  /// that the same members need a new epoch.
  bool is_cut_due(double now_s) const;
  /// Returns the attached members whose last heartbeat is older than the limit, ascending; empty if
  /// there are none.
  std::vector<std::size_t> silent_ranks(double now_s) const {
    return silent_ranks(now_s, heartbeat_limit_s_);
  }
  /// Returns the attached members whose last heartbeat is older than `limit_s`, ascending.
  std::vector<std::size_t> silent_ranks(double now_s, double limit_s) const;

  /// Returns the number of the current epoch.
  std::uint64_t epoch() const { return epoch_.number; }
  /// Returns the current epoch, with the members at its begin.
  const ProgramEpoch& program_epoch() const { return epoch_; }
  /// Returns the members, ascending: ranks that neither ended nor left.
  std::vector<std::size_t> members() const;
  /// Returns the attached members except `without`, ascending. The number of ranks as `without`
  /// leaves out none.
  std::vector<std::size_t> attached_members(std::size_t without) const;
  /// Returns true if record_exit() was called for the rank.
  bool has_ended(std::size_t rank) const { return ranks_[rank].has_ended; }
  /// Returns true if record_left() was called for the rank.
  bool has_left(std::size_t rank) const { return ranks_[rank].has_left; }
  /// Returns the number of ranks at the start.
  std::size_t ranks() const { return ranks_.size(); }
  /// Returns the number of optimizer steps of the rank's process.
  std::uint64_t steps_of(std::size_t rank) const { return ranks_[rank].steps; }
  /// Returns the number of ranks whose process has not ended.
  std::size_t running() const;
  /// Returns the number of ranks that were attached at any time.
  std::size_t attached() const;
  /// Returns the first reason of record_plain(); empty if there is none.
  const std::string& plain_reason() const { return plain_reason_; }
  /// Returns the losses, oldest first.
  const std::vector<ProgramLoss>& losses() const { return losses_; }
  /// Returns the starts of processes, in the order of their first process groups.
  const std::vector<ProgramStart>& starts() const { return starts_; }
  /// Returns the time of all ranks, lost and replaced ones included.
  const ProgramTime& rank_time() const { return time_; }
  /// Returns true if the end of the rank was a loss, and no new process has its place.
  bool is_lost(std::size_t rank) const;
  /// Returns the lost ranks whose place no new process has, ascending.
  std::vector<std::size_t> missing_ranks() const;
  /// Returns true if a lost rank can be replaced now: all attached, none has left, and the program
  /// has named a whole state.
  bool can_replace() const;
  /// Returns the number of examples of lost ranks that others have received; those of a rank that
  /// was replaced since are not counted.
  std::uint64_t dealt_examples() const;
  /// Returns true if the program has named its state.
  bool has_state() const { return has_state_; }
  /// Returns the folder of snapshots that outlive the run; empty: none.
  const std::string& snapshot_folder() const { return snapshot_folder_; }
  /// Returns the step after which the ranks continued; 0: they began anew.
  std::uint64_t resumed_step() const { return resumed_step_; }
  /// Returns the step of the newest complete snapshot of this attempt; 0: none.
  std::uint64_t newest_snapshot() const { return newest_snapshot_; }

  /// Returns the exit code of the run: the code of the first rank that was not lost and ended with
  /// another code than 0, else 6 if ranks are missing, else 0.
  int exit_code() const;
  /// Returns the number of the newest step of any rank; 0 before the first.
  std::uint64_t steps() const;
  /// Returns the median duration of a step in seconds over the newest steps of all ranks together,
  /// at most 4,096 times the number of ranks, without first and interrupted steps; nothing without
  /// such a step.
  std::optional<double> median_step_s() const;
  /// Returns the durations of these steps in seconds, in the order of their reports.
  const std::deque<double>& step_durations_s() const { return durations_; }
  /// Returns the bytes that all ranks together have sent for gradients; those of a rank that was
  /// replaced since are not counted.
  double sent_bytes() const;
  /// Returns the share of the time between first and newest step that the ranks spent on input;
  /// nothing before the second step of a rank.
  std::optional<double> input_share() const;

 private:
  struct Rank {
    bool is_attached = false, has_left = false, has_ended = false;
    bool is_taken = false;  ///< no step has ended since record_taken()
    int code = 0;
    double last_beat_s = 0;
    std::uint64_t settled = 0;
    bool has_settled = false;
    std::uint64_t steps = 0, dealt = 0;
    double begin_s = 0, first_step_s = 0, last_step_s = 0, input_s = 0, first_input_s = 0;
    double sent_bytes = 0;
  };

  Reaction react_to_absence(std::size_t rank) const;

  std::vector<Rank> ranks_;
  double heartbeat_limit_s_;
  bool is_ending_ = false;
  bool has_state_ = false, is_whole_ = false;
  std::string snapshot_folder_;
  std::uint64_t resumed_step_ = 0, newest_snapshot_ = 0;
  ProgramEpoch epoch_;
  std::optional<double> problem_s_;
  std::string plain_reason_;
  std::vector<ProgramLoss> losses_;
  std::vector<ProgramStart> starts_;
  ProgramTime time_;
  std::deque<double> durations_;
};

}  // namespace orrery::live
