// What a recorded run tells up to an instant, told once more: a backend that goes on from a log
// shows its policies the recorded observations first, so that they and its world come to the state
// that they had. What is decided meanwhile was decided then, and is not carried out again. One
// thread. The policy clock is in nanoseconds.
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

class Past {
 public:
  /// Of the log at `path`, the calls up to `until`; nothing: all. Throws bad_input on what is no
  /// log of a scenario. `cluster` outlives this.
  Past(const std::string& path, std::optional<Nanos> until, const Cluster& cluster);

  const LogHeader& header() const { return header_; }
  std::optional<Nanos> until() const { return until_; }
  /// What was decided then is compared with what is decided now: the same policies are asked.
  void compare_decisions() { compares_ = true; }

  /// The next observation; nothing once all has been told. Valid until the next call.
  std::optional<Observation> next();
  /// Takes what is decided now on the last observation. Throws bad_input where the same policies
  /// decided something else then.
  void decided(const DecisionList& decisions);

  // ---- once all has been told ----
  const World& world() { return reader_.world(); }
  Nanos now() const { return now_; }  ///< of the last observation
  std::uint64_t calls() const { return calls_; }
  /// Told as done, in order.
  const std::vector<StepsDone>& steps() const { return steps_; }
  Nanos last_commit() const { return last_commit_; }
  /// Ranks that were lost in the step that is under way.
  const std::set<RankId>& lost_in_step() const { return lost_in_step_; }
  /// Decisions that have no outcome yet.
  std::vector<Decision> open() const;
  /// Steps from which a decision holds that has been applied, by job.
  const std::set<std::pair<JobId, Step>>& effects() const { return effects_; }
  /// Instants that policies want to be called at.
  const std::set<Nanos>& wakes() const { return wakes_; }

 private:
  void note(const Event& event);

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

/// When the last call of the log at `path` was. Throws bad_input on what is no log of a scenario.
Nanos log_end(const std::string& path);
/// The header of the log at `path`. Throws bad_input on what is no log of a scenario.
LogHeader log_header(const std::string& path);

}  // namespace orrery
