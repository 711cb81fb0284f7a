// Recorded observations of a run up to an instant, shown once more. A backend that continues from a
// log first shows its policies the recorded observations, so that policies and world reach their
// recorded state. The decisions on them were carried out by the recorded run and are not carried
// out again. One thread. The policy clock is in nanoseconds.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Replay of a log up to an instant, and the state of the run at its end.
class Past {
 public:
  /// Opens the log at `path` with its calls up to `until`; nothing: all calls. Throws bad_input on
  /// a file that is no log of a scenario. `cluster` must outlive this object.
  Past(const std::string& path, std::optional<Nanos> until, const Cluster& cluster);

  /// Returns the header of the log.
  const LogHeader& header() const { return header_; }
  /// Returns the last instant to show; nothing: all calls are shown.
  std::optional<Nanos> until() const { return until_; }
  /// Compares later decisions with the recorded ones: the same policies are called.
  void compare_decisions() { compares_ = true; }

  /// Returns the next observation, valid until the next call; nothing after the last one.
  std::optional<Observation> next();
  /// Checks the decisions on the last observation. Throws bad_input if the same policies decided
  /// differently in the recorded run.
  void check_decisions(const DecisionList& decisions);

  // ---- once all has been told ----
  /// Returns the world after the last observation.
  const World& world() { return reader_.world(); }
  Nanos now() const { return now_; }  ///< instant of the last observation
  /// Returns the number of shown observations.
  std::uint64_t calls() const { return calls_; }
  /// Returns the completed steps, in order.
  const std::vector<StepsDone>& steps() const { return steps_; }
  /// Returns the instant of the newest commit.
  Nanos last_commit() const { return last_commit_; }
  /// Returns the ranks that were lost in the current step.
  const std::set<RankId>& lost_in_step() const { return lost_in_step_; }
  /// Returns the decisions without an outcome.
  std::vector<Decision> open() const;
  /// Returns, by job, the steps from which an applied decision is valid.
  const std::set<std::pair<JobId, Step>>& effects() const { return effects_; }
  /// Returns the instants at which policies want to be called.
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
  std::vector<StepsDone> steps_;
  std::set<RankId> lost_in_step_;
  std::map<DecisionId, Decision> open_;
  std::set<std::pair<JobId, Step>> effects_;
  std::set<Nanos> wakes_;
};

/// Returns the instant of the last call in the log at `path`. Throws bad_input on a file that is no
/// log of a scenario.
Nanos log_end(const std::string& path);
/// Returns the header of the log at `path`. Throws bad_input on a file that is no log of a
/// scenario.
LogHeader log_header(const std::string& path);

}  // namespace orrery
