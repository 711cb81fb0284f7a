// Changes of a running program that policies decide, on their way to the ranks: each gets a first
// step, and a second try with a later step where a rank was late. Used by program_backend. Plain
// state without processes. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "live/programs/policies/plan_agreement.hpp"
#include "policies/seam/decision.hpp"

namespace orrery::live {

/// Ranks of a program that train, and the newest step that any of them has done.
struct TrainingRanks {
  std::vector<std::size_t> members;
  std::uint64_t most_steps = 0;
};

/// Changes that are not committed yet, and the agreement about them.
class ProgramPlans {
 public:
  /// Decision whose step all ranks have accepted, or that came too late.
  struct Answered {
    Decision decision;
    std::uint64_t number = 0;  ///< number for commit_plan() and withdraw_plan()
    bool is_accepted = false;
    std::uint64_t late_step = 0;  ///< step that had begun at a rank
  };

  explicit ProgramPlans(PlanAgreement::Send send) : agreement_(std::move(send)) {}

  /// Proposes a change that begins as soon as all ranks can make it; repeats the proposal until
  /// all have accepted it. `kind`: of several open changes of one kind the newest counts.
  void propose_soon(const std::string& kind, const std::string& text, const TrainingRanks& ranks);
  /// Proposes the change of a decision at its own step; without a step as propose_soon().
  void propose_decision(const Decision& decision, const std::string& kind, const std::string& text,
                        const TrainingRanks& ranks);
  /// Makes the change of a decision at `step`. Call only while all ranks wait in an earlier step
  /// for begin_rank(). settle_answers() returns the decision as accepted.
  void set_decision(const Decision& decision, const std::string& kind, const std::string& text,
                    std::uint64_t step) {
    answered_.push_back({decision, agreement_.set_plan(kind, step, text), true, 0});
  }
  /// Handles a message of a rank, as PlanAgreement::handle_message().
  bool handle_message(std::size_t rank, const Fields& fields) {
    return agreement_.handle_message(rank, fields);
  }
  /// Commits the accepted changes without a decision, and proposes the late ones again. Returns the
  /// decisions that the ranks have answered: call commit_plan() or withdraw_plan() for each
  /// accepted one.
  std::vector<Answered> settle_answers(const TrainingRanks& ranks);
  void commit_plan(std::uint64_t number) { agreement_.commit_plan(number); }
  void withdraw_plan(std::uint64_t number) { agreement_.withdraw_plan(number); }
  /// Withdraws all open plans, because the members have changed. Returns those of decisions; the
  /// others are proposed again by the next settle_answers().
  std::vector<Decision> withdraw_all();
  /// Sends a new process the plans that are valid at `step`, and lets it begin.
  void begin_rank(std::size_t rank, std::uint64_t step) { agreement_.begin_rank(rank, step); }

 private:
  struct Change {
    std::string kind, text;
    std::uint64_t lead = 0;  ///< steps between the newest begun one and the first of the change
    std::optional<Decision> decision;
  };
  void propose_change(Change change, std::uint64_t begun, const TrainingRanks& ranks);

  PlanAgreement agreement_;
  std::map<std::uint64_t, Change> open_;  ///< changes by number
  std::vector<Change> waiting_;           ///< changes without a proposal
  std::vector<Answered> answered_;        ///< decisions of set_decision()
};

}  // namespace orrery::live
