// Plan of one join: brings the ranks of a program to one step, lets one of them write its state for
// a new process, and tells the new process. Used by program_run. Plain state without processes. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Join of one new process in the place of a lost rank. The members answer through live/group/
/// meeting_point. Stages: every member says how many steps it has marked; all meet one step after
/// the largest number; the first member writes its state to a file; the new process loads the file
/// and says so.
class JoinPlan {
 public:
  /// Sends a message to the process that is a rank, or, for the rank of the join, to the new one.
  using Send = std::function<void(std::size_t rank, const Fields& fields)>;

  /// Plans join `number` of a process as `rank`, with the state in the file `path`; asks `members`,
  /// at least one and without `rank`, to halt. `number` differs from that of earlier joins.
  JoinPlan(std::size_t rank, std::uint64_t number, std::string path,
           const std::vector<std::size_t>& members, Send send);

  /// Handles the answer of a member: "count", "met" or "given". Ignores other messages, and
  /// answers of other joins and stages. Throws std::exception if a number or a field is missing.
  void handle_answer(std::size_t member, const Fields& fields);
  /// Goes on without a member that was lost.
  void remove_member(std::size_t member);
  /// Tells all members to continue. `has_joined`: the new process is one of them from now on; it is
  /// told too.
  void resume_members(bool has_joined);

  /// Returns the rank of the new process.
  std::size_t rank() const { return rank_; }
  /// Returns true once the new process was told to load the state.
  bool is_given() const { return stage_ == Stage::loading; }
  /// Returns the step at which the members meet; 0: not known yet.
  std::uint64_t step() const { return step_; }

 private:
  enum class Stage : std::uint8_t { counting, meeting, giving, loading };

  void advance_stage();
  void ask_for_state();

  const std::size_t rank_;
  const std::string number_, path_;
  const Send send_;
  Stage stage_ = Stage::counting;
  std::set<std::size_t> members_, pending_;
  std::uint64_t most_steps_ = 0, step_ = 0;
  std::map<std::string, std::string> counts_;  ///< operations of each group
};

}  // namespace orrery::live
