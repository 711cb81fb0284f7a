// Membership and account of the ranks of a user's program: who is a member of which epoch, which
// ranks were lost and why, the time that each loss cost. Used by program_run, which talks to the
// ranks. Plain state without processes. One thread; seconds of one monotonic clock, which the ranks
// share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace orrery::live {

/// Loss of one rank.
struct ProgramLoss {
  std::size_t rank = 0;
  double time_s = 0;             ///< instant at which the loss was known
  std::string cause;             ///< for example "killed by signal 9 (Killed)"
  std::optional<double> lost_s;  ///< duration of the interrupted step minus the median step;
                                 ///< nothing if no survivor has finished a step since
};

/// Reaction of the run to news of a rank.
enum class Reaction : std::uint8_t {
  none,
  new_epoch,  ///< the members have changed: all must hear of the next epoch
  end_run,    ///< a rank ended that the others cannot do without
};

/// States of the ranks of one run.
class RunBook {
 public:
  /// All `ranks` ranks are members of epoch 0, which begins at `now_s`.
  RunBook(std::size_t ranks, double heartbeat_limit_s, double now_s);

  void record_hello(std::size_t rank, double now_s);
  void record_beat(std::size_t rank, double now_s);
  /// Records that the rank runs without the fault-tolerant group; the first reason is kept.
  void record_plain(std::size_t rank, const std::string& reason);
  /// Records that the rank has agreed with the others in epoch `epoch`.
  void record_settled(std::size_t rank, std::uint64_t epoch);
  /// Records an operation that failed in epoch `epoch`, perhaps because the connection was cut. If
  /// no loss explains the failure within a second, is_cut_due() asks for a new epoch.
  void record_problem(std::uint64_t epoch, double now_s);
  /// Records the end of optimizer step `step` at `end_s`, and the seconds spent on input so far.
  void record_step(std::size_t rank, std::uint64_t step, double end_s, double input_s);
  /// Records that the rank has left: no other rank needs its results.
  Reaction record_left(std::size_t rank);
  /// Records the end of the rank's process. Code 0, the end of a rank that has left and the end of
  /// the last rank are no losses.
  Reaction record_exit(std::size_t rank, int code, const std::string& description, double now_s);

  /// Records that the run ends its ranks: their ends are no losses any more.
  void record_ending() { is_ending_ = true; }

  /// Begins the next epoch with the present members.
  void begin_epoch();
  /// Returns true if a failed operation asks for an epoch with the same members.
  bool is_cut_due(double now_s) const;
  /// Returns the attached members whose last heartbeat is older than the limit.
  std::vector<std::size_t> silent_ranks(double now_s) const;

  std::uint64_t epoch() const { return epoch_; }
  /// Members of the next epoch, ascending: ranks that neither ended nor left.
  std::vector<std::size_t> members() const;
  /// Members that are attached, without `without`.
  std::vector<std::size_t> attached_members(std::size_t without) const;
  bool has_ended(std::size_t rank) const { return ranks_[rank].has_ended; }
  bool has_left(std::size_t rank) const { return ranks_[rank].has_left; }
  std::size_t running() const;
  std::size_t attached() const;  ///< ranks that were attached at any time
  const std::string& plain_reason() const { return plain_reason_; }
  const std::vector<ProgramLoss>& losses() const { return losses_; }
  bool is_lost(std::size_t rank) const;

  /// Exit code of the run: that of the program if a rank that was not lost ended with another code
  /// than 0, else 6 if ranks were lost, else 0.
  int exit_code() const;
  std::uint64_t steps() const;                  ///< most steps of any rank
  std::optional<double> median_step_s() const;  ///< over the newest 4,096 steps of every rank
  std::optional<double> input_share() const;  ///< share of the time in steps; nothing before a step

 private:
  struct Rank {
    bool is_attached = false, has_left = false, has_ended = false;
    int code = 0;
    double last_beat_s = 0;
    std::uint64_t settled = 0;
    bool has_settled = false;
    std::uint64_t steps = 0;
    double first_step_s = 0, last_step_s = 0, input_s = 0, first_input_s = 0;
  };

  Reaction react_to_absence(std::size_t rank) const;

  std::vector<Rank> ranks_;
  double heartbeat_limit_s_;
  bool is_ending_ = false;
  std::uint64_t epoch_ = 0;
  std::optional<double> problem_s_;
  std::string plain_reason_;
  std::vector<ProgramLoss> losses_;
  std::deque<double> durations_;
};

}  // namespace orrery::live
