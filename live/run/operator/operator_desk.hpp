// Where a run and its operator meet: what happens is noted on the status board, warnings are said,
// questions stand there until they are answered, orders are taken in. The live backend feeds it and
// asks it several times a second; one thread. Instants are the policy clock's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/machine/host_clock.hpp"
#include "live/run/operator/orders.hpp"
#include "live/run/operator/status_board.hpp"
#include "live/supervision.pb.h"
#include "policies/handover/hand_over.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

class OperatorDesk {
 public:
  /// What an order may change.
  struct Run {
    /// Why a parameter cannot be set so; empty: it can.
    std::function<std::string(const ParameterSet& set)> objection;
    std::function<void(Event event)> happen;
  };
  /// `folder`: of the run. `metrics`: see StatusBoard.
  OperatorDesk(const std::string& folder, const std::string& metrics, Run run);

  void note(Nanos now, const std::string& what) { board_.note(now, what); }
  /// Said at once, and once more in the report: an operator looks at what runs.
  void warn(Nanos now, const std::string& what);
  void happened(const Event& event, Nanos now);

  /// In mode approve: somebody is to say yes.
  void asked(const Decision& decision, Nanos now);
  /// Answers since the last call.
  std::vector<Verdict> take_verdicts() { return std::exchange(verdicts_, {}); }

  /// Carries out orders that have been left since the last look; looks five times a second, and
  /// while the run does not train only at the age of questions. `shown`: whatever has happened has
  /// been shown to the policies. Gives the order to end the run.
  std::optional<StopRun> hear(Nanos now, bool trains, bool shown);

  bool due() const { return board_.due(); }
  /// Questions and outcomes of decisions.
  void fill(RunStatus& status) const;
  void show(const RunStatus& status) { board_.show(status); }
  void show_last(const RunStatus& status) { board_.show_last(status); }
  /// Warnings.
  void fill(Report& report) const;

 private:
  void carry_out(const Order& order, Nanos now);
  void forget_question(std::uint64_t decision);

  const std::string folder_;
  const Run run_;
  StatusBoard board_;
  Clock::time_point looked_;
  std::set<std::string> done_;  ///< files of orders, as long as they are there
  std::vector<RunStatus::Question> questions_;
  std::vector<Verdict> verdicts_;
  std::uint64_t outcomes_ = 0;  ///< of decisions, so far
  std::vector<std::string> warnings_;
};

}  // namespace orrery::live
