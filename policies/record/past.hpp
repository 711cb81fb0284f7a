// Past of a run that continues from a log. The backend first shows its policies the recorded
// observations, so that policies and World reach their recorded state. The decisions of the
// policies on these observations are only compared with the recorded decisions, which the recorded
// run has carried out. One thread. Instants are nanoseconds of the policy clock.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/samples_book.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Reader of the recorded observations of a log up to an instant, which collects the state of the
/// run at that instant.
class Past {
 public:
  /// Opens the log at `path` with its calls up to the instant `until`; nothing: all calls.
  /// `cluster` must outlive this object. Throws bad_input for a file that cannot be read, is not a
  /// log of a scenario or has another format.
  Past(const std::string& path, std::optional<Nanos> until, const Cluster& cluster);

  /// Returns the header of the log.
  const LogHeader& header() const { return header_; }
  /// Returns the last instant to show; nothing: all calls are shown.
  std::optional<Nanos> until() const { return until_; }
  /// Makes check_decisions() compare decisions with the recorded ones. Call before the first
  /// next(), if the policies are those of the log.
  void compare_decisions() { compares_ = true; }
  /// Sets the receiver of each recorded decision that the shown policies have not made, because
  /// they are not those of the log. Called within check_decisions(), unless it compares.
  void on_unknown_decision(std::function<void(const Decision&)> receive) {
    receive_ = std::move(receive);
  }

  /// Returns the next observation, valid until the next call, and takes its events into the state;
  /// nothing after the last observation up to until(), also if the log has no footer, and at every
  /// later call. Throws bad_input for a damaged or impossible record, a log cut within a record, or
  /// a call in which the run gave up its policies.
  std::optional<Observation> next();
  /// Takes the recorded decisions and wake-up times on the last observation into the state and
  /// announces these decisions to world(); `decisions` are only compared. Call once after each
  /// observation. Throws bad_input if compare_decisions() was called and `decisions` differ from
  /// the recorded ones (wake-up times are not compared), and for an impossible recorded decision.
  void check_decisions(const DecisionList& decisions);

  // ---- state at the end, valid after next() has returned nothing ----
  /// Returns the world after the last observation.
  const World& world() { return reader_.world(); }
  Nanos now() const { return now_; }  ///< instant of the last observation; 0 without any
  /// Returns the number of shown observations.
  std::uint64_t calls() const { return calls_; }
  /// Returns the reports of completed steps, in order.
  const std::vector<StepsDone>& steps() const { return steps_; }
  /// Returns the micro-batches of each of these steps, one number for each report of steps().
  const std::vector<std::uint32_t>& batches() const { return batches_; }
  /// Returns the instant of the newest completed step; 0 before the first.
  Nanos last_commit() const { return last_commit_; }
  /// Returns the ranks, of any job, that were lost since the newest completed step.
  const std::set<RankId>& lost_in_step() const { return lost_in_step_; }
  /// Returns the decisions without an outcome, by id.
  std::vector<Decision> open() const;
  /// Returns pairs of a job and the first step of a decision that was applied to the job after its
  /// newest loss of ranks; 0: at once.
  const std::set<std::pair<JobId, Step>>& effects() const { return effects_; }
  /// Returns the instants at which policies want to be called: those after the last observation,
  /// and all that were requested in its call, also if they are not later.
  const std::set<Nanos>& wake_times() const { return wakes_; }

 private:
  void record_event(const Event& event);

  LogReader log_;
  const LogHeader header_;
  const std::optional<Nanos> until_;
  ObservationReader reader_;
  LogRecord record_;
  SamplesBook samples_;
  bool compares_ = false, told_ = false;
  Nanos now_ = 0, last_commit_ = 0;
  std::uint64_t calls_ = 0;
  std::uint32_t batch_of_job();

  std::vector<StepsDone> steps_;
  std::vector<std::uint32_t> batches_;
  std::uint32_t batch_ = 0;  ///< batch before the newest observation
  std::set<RankId> lost_in_step_;
  std::map<DecisionId, Decision> open_;  ///< decisions without an outcome
  std::set<std::pair<JobId, Step>> effects_;
  std::set<Nanos> wakes_;
  std::function<void(const Decision&)> receive_;
};

/// Returns the instant of the last call in the log at `path`; 0 without calls. Reads the whole log,
/// which may lack a footer. Throws bad_input for a file that cannot be read, is not a log of a
/// scenario, has another format, is damaged, or is cut within a record.
Nanos log_end(const std::string& path);
/// Returns the header of the log at `path`. Throws bad_input for a file that cannot be read, is not
/// a log of a scenario or has another format.
LogHeader log_header(const std::string& path);

}  // namespace orrery
