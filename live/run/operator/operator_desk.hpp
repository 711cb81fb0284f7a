// Interface between a run and its operator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/machine/host_clock.hpp"
#include "live/run/files/file_writer.hpp"
#include "live/run/operator/orders.hpp"
#include "live/run/operator/status_board.hpp"
#include "live/supervision.pb.h"
#include "policies/handover/hand_over.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

/// Connection of a run to its operator: publishes events, warnings and open questions on the status
/// board, and reads the operator's orders from the run's folder. The live backend calls it several
/// times a second; single-threaded. Instants are times of the policy clock.
class OperatorDesk {
 public:
  /// Access to the run for the operator's orders.
  struct Run {
    /// Returns the reason why a parameter cannot be set; empty if it can.
    std::function<std::string(const ParameterSet& set)> objection;
    /// Applies an event to the run.
    std::function<void(Event event)> happen;
    /// Announces the removal of a part; returns the reason why it cannot be announced, or an empty
    /// text.
    std::function<std::string(const RemovalOrder& order)> announce;
  };
  /// Starts the status board. `folder`: folder of the run. `metrics`: see StatusBoard, also for the
  /// errors. `run`: called within apply_orders() only.
  OperatorDesk(const std::string& folder, const std::string& metrics, Run run);

  /// Adds a line to the status board; ignores an empty line.
  void add_line(Nanos now, const std::string& what) { board_.add_line(now, what); }
  /// Prints a warning on standard error at once, and adds the warning to the status board and the
  /// report.
  void add_warning(Nanos now, const std::string& what);
  /// Shows in the status that no controller could take over, because of `reason`.
  void set_without_takeover(std::string reason) { without_takeover_ = std::move(reason); }
  /// Adds a line about an event to the status board, if describe() has one. A Decided event also
  /// removes the question about its decision and increases the number of outcomes in the status.
  void add_event(const Event& event, Nanos now);

  /// Adds a question to the status, and a line to the status board: in mode approve, the operator
  /// must approve the decision. The question is removed by the operator's verdict, by the
  /// decision's outcome, or 60 s after `now`, by apply_orders().
  void add_question(const Decision& decision, Nanos now);
  /// Returns the operator's answers since the last call, in the order of arrival; empty if none.
  std::vector<Verdict> take_verdicts() { return std::exchange(verdicts_, {}); }

  /// Removes questions that are too old and, while the run trains (`trains`), applies the orders
  /// that have arrived since the last call, each once: emits ParameterSet for a valid parameter,
  /// stores verdicts, removes their questions and emits a Tick for each, announces removals, and
  /// adds a line for each refused order. `shown`: the policies have seen all events, so that a
  /// thread deletes the files of orders applied earlier (an order whose file cannot be deleted is
  /// not applied again).
  /// Returns the order to end the run as long as its file exists, at every call; otherwise nothing.
  /// Does nothing and returns nothing within 0.2 s after the last call that had an effect, and
  /// returns nothing unless `trains`.
  std::optional<StopRun> apply_orders(Nanos now, bool trains, bool shown);

  /// Returns the order to end the run as long as its file exists; otherwise nothing. For a run that
  /// waits for its policies and can obey no other order.
  std::optional<StopRun> find_stop_order() const;

  /// Returns true if the status is due to be published.
  bool is_due() const { return board_.is_due(); }
  /// Replaces the open questions, the number of outcomes of decisions and the reason of
  /// set_without_takeover() in the status.
  void fill(RunStatus& status) const;
  /// Publishes the status; is_due() is then false until the next status is due. Ignores files that
  /// cannot be written.
  void publish_status(const RunStatus& status) { board_.publish_status(status); }
  /// Publishes the last status of the run and waits for its file, at most for two seconds. Then
  /// blocks for half a second if a viewer is attached.
  void show_last(const RunStatus& status) { board_.show_last(status); }
  /// Appends all warnings of add_warning() to the report; a second call appends them again.
  void fill(Report& report) const;

 private:
  /// State of the removal of an applied order's file.
  enum class Removal : std::uint8_t { pending, removed, failed };
  using RemovalState = std::atomic<Removal>;
  /// Applies one order, or notes why the order is refused.
  void carry_out(const Order& order, Nanos now);
  /// Removes the file of an applied order, beside the control loop. Returns the removal's state.
  std::shared_ptr<RemovalState> remove_order(const std::string& file);
  /// Removes the question about `decision`.
  void forget_question(std::uint64_t decision);

  const std::string folder_;
  const Run run_;
  StatusBoard board_;
  Clock::time_point looked_;
  /// Files of applied orders that still exist, with the state of their removal; null before it.
  std::map<std::string, std::shared_ptr<RemovalState>> done_;
  std::vector<RunStatus::Question> questions_;
  std::vector<Verdict> verdicts_;
  std::uint64_t outcomes_ = 0;  ///< Number of decided decisions so far.
  std::vector<std::string> warnings_;
  std::string without_takeover_;  ///< Reason; empty: a controller could take over.
  FileWriter removals_;
};

}  // namespace orrery::live
