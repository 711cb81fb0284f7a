// Agreement of the ranks of a user's program on changes that begin at a step: a change is proposed
// to all ranks and committed once all have accepted it (live/group/step_plans). Used by
// program_backend. Plain state without processes. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "live/group/frames.hpp"
#include "live/group/messages.hpp"

namespace orrery::live {

/// Plans of one run, of which several may be open at once. A plan has a kind: of one kind the
/// newest committed plan counts from its step on.
class PlanAgreement {
 public:
  /// Sends a message to a rank.
  using Send = std::function<void(std::size_t rank, const Fields& fields)>;
  /// Plan on which the ranks have answered.
  struct Answer {
    std::uint64_t number = 0;
    bool is_accepted = false;     ///< true: call commit_plan() or withdraw_plan()
    std::uint64_t late_step = 0;  ///< newest step that had begun at a rank that was late
  };

  explicit PlanAgreement(Send send) : send_(std::move(send)) {}

  /// Proposes a plan from step `step` on to `members`, at least one. Returns its number.
  std::uint64_t propose_plan(const std::string& kind, std::uint64_t step, const std::string& text,
                             const std::vector<std::size_t>& members);
  /// Makes a plan valid from step `step` on, which no rank has begun, without an answer of the
  /// ranks: begin_rank() sends it. Returns its number.
  std::uint64_t set_plan(const std::string& kind, std::uint64_t step, const std::string& text) {
    committed_[kind][step] = text;
    return ++numbers_;
  }
  /// Handles the messages "accepted" and "late" of a rank. Returns false for other messages. Throws
  /// std::exception if a number or a field is missing.
  bool handle_message(std::size_t rank, const Fields& fields);
  /// Returns the plans that all members have answered since the last call, oldest first. A refused
  /// plan is withdrawn already.
  std::vector<Answer> drain_answers();
  /// Tells all members that the plan is valid. Does nothing for a plan that is not open.
  void commit_plan(std::uint64_t number);
  /// Tells all members that the plan is void. Does nothing for a plan that is not open.
  void withdraw_plan(std::uint64_t number);
  /// Withdraws all open plans, because the members have changed. Returns their numbers, ascending.
  std::vector<std::uint64_t> withdraw_all();
  /// Sends a new process the newest committed plan of each kind that begins at `step` or before,
  /// all later ones, and then "begin".
  void begin_rank(std::size_t rank, std::uint64_t step);
  /// Forgets the committed plans of a kind.
  void forget_plans(const std::string& kind) { committed_.erase(kind); }

 private:
  struct Plan {
    std::string kind, text;
    std::uint64_t step = 0;
    std::vector<std::size_t> members;
    std::set<std::size_t> pending;
    bool is_answered = false;
  };
  void finish_plan(std::uint64_t number, MessageKind how);

  const Send send_;
  std::uint64_t numbers_ = 0;
  std::map<std::uint64_t, Plan> open_;
  std::vector<Answer> answers_;
  /// texts by first step, by kind
  std::map<std::string, std::map<std::uint64_t, std::string>> committed_;
};

}  // namespace orrery::live
