// Changes of a program's training that all ranks make at the same step: shares of the examples,
// intervals of snapshots, single snapshots. Plain C++ without PyTorch, compiled into the user's
// program; the other side is live/programs/policies/plan_agreement.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Plans of one rank, each with its first step. The thread of the training calls begin_step(); the
/// thread of the connection passes on the messages of `orrery run`: "plan STEP TEXT", "propose
/// NUMBER STEP TEXT" (answered with "accepted NUMBER" or "late NUMBER BEGUN"), "commit NUMBER",
/// "withdraw NUMBER", "begin". Example: a plan is proposed for step 7 while one rank is in step 5
/// and one in step 6. Both accept. A rank that reaches step 7 before the commit waits for it.
class StepPlans {
 public:
  /// Constructs an empty set; `send` sends a message to `orrery run`, on any thread.
  explicit StepPlans(std::function<void(const Fields&)> send) : send_(std::move(send)) {}

  /// Handles a message of `orrery run`. Returns false, without an effect, if the message is about
  /// something else. Throws std::exception if a number or a field is missing.
  bool handle_message(const Fields& fields);
  /// Records the end of the connection: later calls do not block, and open proposals are withdrawn.
  void end_connection();
  /// Records a connection to a successor of `orrery run`: proposals count again.
  void begin_connection();
  /// Blocks until the message "begin" or the end of the connection.
  void wait_until_begun();
  /// Marks the begin of step `step`; the calls must have ascending steps. Blocks while a proposal
  /// for this step or an earlier one is open. Returns the texts of the plans that begin at this
  /// step or began since the previous call, in the order of their steps.
  std::vector<std::string> begin_step(std::uint64_t step);

 private:
  struct Proposal {
    std::uint64_t step = 0;
    std::string text;
  };
  bool is_undecided(std::uint64_t step) const;

  const std::function<void(const Fields&)> send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::uint64_t> begun_;  ///< newest step that has begun
  bool has_begun_ = false, is_gone_ = false;
  std::map<std::uint64_t, Proposal> open_;             ///< proposals by number
  std::multimap<std::uint64_t, std::string> planned_;  ///< texts by first step
};

}  // namespace orrery::live
