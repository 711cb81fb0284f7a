// Estimated durations of recorded jobs, for policies. Called by sim/replay/recorded_jobs when jobs
// arrive and end. One thread; seconds of the log, nanoseconds for policies. Kinds of estimates:
//
// - recorded: the recorded duration, which no scheduler knows at submission.
// - requested: the user's request; for a job without a request as learned.
// - learned: the mean of the last two ended jobs of the same user, size and name (names without
//   digits). If no such job has ended: of the same user and size, then of the same virtual cluster
//   and size, then of the same size, then of all jobs; one hour before any end. At least 1 s. An
//   unknown user or virtual cluster is none: such jobs begin further on in this list. The mean of
//   the last two jobs of a user is the predictor of Tsafrir, Etsion and Feitelson (2007).
// - disturbed: the recorded duration x a log-normal factor of median 1, drawn for each job by its
//   id; whole seconds, from 1 s to 100 years.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::sim {

/// Kind and parameters of the estimates of a run.
struct EstimateChoice {
  EstimateKind kind = EstimateKind::recorded;
  double error = 0.5;  ///< disturbed: standard deviation of the factor's natural logarithm
  std::uint64_t seed = 1;
};

/// Returns the kind with this name. Throws bad_input with the nearest name for an unknown name.
EstimateKind estimate_kind(const std::string& name);

/// Returns the choice that a message of the schema (JobReplay, RecordedLog) makes, with the
/// defaults of EstimateChoice for absent fields. `seed`: seed of disturbed estimates. Throws as
/// estimate_kind().
template <class Message>
EstimateChoice estimate_choice(const Message& asked, std::uint64_t seed) {
  EstimateChoice choice{.seed = seed};
  if (!asked.estimates().empty()) choice.kind = estimate_kind(asked.estimates());
  if (asked.has_estimate_error()) choice.error = asked.estimate_error();
  return choice;
}

/// Estimator of the durations of the jobs of a log. For example, after a user's two 8-GPU jobs of 1
/// h and 3 h, `learned` estimates the next one at 2 h.
class JobEstimates {
 public:
  explicit JobEstimates(EstimateChoice choice);

  /// Returns true if all estimates are the recorded durations.
  bool are_recorded_durations() const { return choice_.kind == EstimateKind::recorded; }
  /// Returns the estimated duration of a job at its submission, in nanoseconds; learned estimates
  /// follow from the ends recorded so far. Records nothing.
  Nanos at_submission(const TraceJob& job) const;
  /// Records the end of a job that had its GPUs for `ran`; only learned and requested estimates use
  /// the record.
  void record_end(const TraceJob& job, Nanos ran);

 private:
  /// Run times of the last two ended jobs of one kind of job, and the number of ended jobs.
  struct Last {
    Nanos newest = 0, before = 0;
    std::uint32_t seen = 0;
  };
  /// Returns the kinds of a job, from the most special to the most general.
  static std::vector<std::string> kinds_of(const TraceJob& job);
  /// Returns the mean run time of the last two ended jobs of the most special kind with ended jobs.
  Nanos learned_estimate(const TraceJob& job) const;
  /// Returns the recorded duration x the job's random factor.
  Nanos disturbed(const TraceJob& job) const;

  const EstimateChoice choice_;
  const bool learns_;  ///< true if ended jobs are recorded
  const Rng rng_;
  std::map<std::string, Last> last_;  ///< keyed by kind of job
};

}  // namespace orrery::sim
