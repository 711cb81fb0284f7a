// Place between two steps where the ranks of a program wait for each other, so that a new process
// can take the place of a lost rank. Plain C++ without PyTorch, compiled into the user's program;
// the other side is live/programs/join_plan.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Meeting point of one rank. The thread of the training calls mark_step() after each step; the
/// thread of the connection passes on what `orrery run` says. The messages, in their order: "halt
/// JOIN" (answered with "count JOIN STEP", STEP: the newest marked step), "meet JOIN STEP",
/// instructions, "resume". Example: of three ranks, two have marked step 7 and one step 8. All are
/// told to meet at step 9: the first two train two more steps.
class MeetingPoint {
 public:
  /// Constructs the meeting point; `send` sends a message to `orrery run`, on any thread.
  explicit MeetingPoint(std::function<void(const Fields&)> send) : send_(std::move(send)) {}

  /// Handles a message of `orrery run`. Messages of other kinds are instructions for
  /// wait_for_instruction(). Throws std::exception if a number or a field is missing.
  void handle_message(const Fields& fields);
  /// Records the end of the connection: ranks at a meeting continue, and later calls of mark_step()
  /// return false.
  void end_connection();
  /// Records a connection to a successor of `orrery run`: meetings are arranged again.
  void begin_connection();
  /// Marks the end of step `step`. Returns false at once unless a meeting is being arranged; else
  /// blocks until its step is known. Returns true if this is the step of the meeting: the caller
  /// must call announce_arrival(), then wait_for_instruction() until that returns "resume".
  bool mark_step(std::uint64_t step);
  /// Tells `orrery run` that this rank waits at the meeting. `counts`: keys of the groups, each
  /// followed by the number of its operations.
  void announce_arrival(const Fields& counts);
  /// Blocks until the next instruction and returns it. "resume" has a second field if a process has
  /// joined. Instructions are those of the meeting at which the rank waits, or those of a process
  /// that is to join. After the end of the connection returns "resume" at a meeting, and throws
  /// std::runtime_error in a process that is to join.
  Fields wait_for_instruction();

 private:
  const std::function<void(const Fields&)> send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t marked_ = 0, meeting_step_ = 0;  ///< meeting_step_ 0: not known
  std::string join_;                             ///< number of the join; empty: no halt
  std::string reached_;  ///< number of the join at whose meeting the rank waits or waited last
  std::deque<Fields> instructions_;
  std::uint64_t ends_ = 0, reached_ends_ = 0;  ///< ends of connections: all; before the meeting
};

}  // namespace orrery::live
