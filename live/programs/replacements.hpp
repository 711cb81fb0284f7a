// New processes for lost ranks of a user's program, one at a time: started, brought to a step of
// the others, and handed to program_run once they have joined. One thread.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/programs/join_plan.hpp"
#include "live/programs/program_settings.hpp"
#include "live/programs/rank_process.hpp"
#include "live/programs/run_book.hpp"

namespace orrery::live {

/// Replacements of one run. Times are seconds of the monotonic clock of the RunBook.
class Replacements {
 public:
  /// Starts nothing. `settings` and `book` must outlive this object; `send` sends a message to a
  /// member. `state_path`: file for the state that a new process gets.
  Replacements(const ProgramSettings& settings, RunBook& book, std::string store_path,
               std::string state_path, JoinPlan::Send send);

  /// Records that the program has named its state (RunBook::record_state()); tells the user the
  /// first time.
  void record_state(bool is_whole);
  /// Adds the descriptors of the new process, if there is one.
  void add_waiting(std::vector<pollfd>& waiting) const;
  /// Handles the messages of the new process. Returns true if it has loaded the state: then call
  /// claim_process(), announce the next epoch, and call resume_members().
  bool read_messages(double now_s);
  /// Handles a message of a member about a join; ignores others.
  void handle_answer(std::size_t member, const Fields& fields);
  /// Goes on without a member that was lost.
  void remove_member(std::size_t member);
  /// Starts a process for the first missing rank if RunBook::can_replace(), begins the join of one
  /// that is ready, kills one that is silent or cannot join any more, and lets the members continue
  /// once it has ended. `ends`: the run ends its ranks.
  void watch_process(double now_s, bool ends);
  /// Lets watch_process() start a process for a lost rank; needed if settings.replaces_by_order.
  void order_process(std::size_t rank) { ordered_.insert(rank); }
  /// Kills the new process, if there is one.
  void kill_process();

  /// Returns the lost rank of the new process; no meaning without one.
  std::size_t rank() const { return plan_ ? plan_->rank() : current_->rank; }
  /// Returns true from the start of a new process to its join or end.
  bool has_process() const { return current_.has_value(); }
  /// Returns the step after which the new process joins; no meaning before read_messages() has
  /// returned true.
  std::uint64_t step() const { return plan_->step(); }
  /// Returns the new process and records that it has joined. Call after read_messages() returned
  /// true.
  RankProcess claim_process(double now_s);
  /// Tells all members, the new one too, to continue, and the user that it has joined. Call after
  /// claim_process().
  void resume_members();
  /// Returns the number of processes that were started.
  std::size_t started() const { return started_; }

 private:
  /// Process until it has joined.
  struct Current {
    std::size_t rank = 0;
    RankProcess process;
    double last_beat_s = 0;
    bool is_attached = false, is_ready = false, is_killed = false;
  };

  void start_process(double now_s);
  void drop_process();
  void send_fields(std::size_t rank, const Fields& fields);
  bool handle_message(const Fields& fields);

  const ProgramSettings& settings_;
  RunBook& book_;
  const std::string store_path_, state_path_;
  const JoinPlan::Send send_;
  std::optional<Current> current_;
  std::optional<JoinPlan> plan_;
  std::set<std::size_t> ordered_;  ///< lost ranks that order_process() has named
  std::size_t started_ = 0;
  double absent_s_ = 0;
};

}  // namespace orrery::live
