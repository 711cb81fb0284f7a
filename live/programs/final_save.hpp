// Snapshot of a user's program before an operator ends it: brings the ranks to one step, lets them
// save there, and says how that ended. Used by program_run. Plain state without processes. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Snapshot that all ranks save together. The ranks answer through live/group/meeting_point.
/// Stages: every member says how many steps it has marked; all meet one step after the largest
/// number; all save; all continue. For example, members that have marked 7 and 8 steps save the
/// state after step 9.
class FinalSave {
 public:
  /// Sends a message to a rank.
  using Send = std::function<void(std::size_t rank, const Fields& fields)>;

  explicit FinalSave(Send send) : send_(std::move(send)) {}

  /// Orders the snapshot, which begins with begin_save(). Does nothing if one is ordered.
  void order_save();
  /// Returns true from order_save() until drain_result() has returned the result.
  bool is_ordered() const { return stage_ != Stage::none; }
  /// Asks `members` to halt; does nothing without a member, and unless a snapshot is ordered and
  /// has not begun.
  void begin_save(const std::vector<std::size_t>& members);
  /// Handles the answer of a member: "count", "met", "snapshot" or "unsaved". Ignores other
  /// messages, and answers of other stages and meetings. Throws std::exception if a number or a
  /// field is missing.
  void handle_answer(std::size_t member, const Fields& fields);
  /// Goes on without a member that was lost or has ended.
  void remove_member(std::size_t member);
  /// Returns once, after the last answer, true if the snapshot is complete at all members, and lets
  /// them continue; nothing before. False also if no member is left.
  std::optional<bool> drain_result();
  /// Returns the step of the snapshot; 0: not known yet.
  std::uint64_t step() const { return step_; }

 private:
  enum class Stage : std::uint8_t { none, ordered, counting, meeting, saving, over };

  void advance_stage();

  const Send send_;
  Stage stage_ = Stage::none;
  std::string number_;  ///< number of the meeting, which no join has
  std::uint64_t orders_ = 0;
  std::set<std::size_t> members_, pending_;
  std::uint64_t most_steps_ = 0, step_ = 0;
  bool is_complete_ = true;
};

}  // namespace orrery::live
