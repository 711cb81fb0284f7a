// Estimated durations of recorded jobs for policies: based only on facts known at submission,
// unless the run asks for the recorded durations. Called by sim/jobs/recorded_jobs as jobs arrive
// and end. One thread; seconds of the log, nanoseconds for policies. Kinds: requested: the user's
// request; a job without one as learned. learned: the mean of the last two ended jobs of the same
// user, size and name (without digits in names); if none has ended, of the same user and size, then
// of the same virtual cluster and size, then of the size, then of all jobs; one hour before any
// end. The last two jobs of a user are the predictor of Tsafrir, Etsion and Feitelson (2007).
// disturbed: the duration x a log-normal factor of median 1, drawn for each job by its id.
// recorded: the duration.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// Kind and parameters of the estimates.
struct EstimateChoice {
  std::string kind = "recorded";
  double error = 0.5;  ///< disturbed: standard deviation of the factor's logarithm
  std::uint64_t seed = 1;
};

/// Returns the choice in a message of the schema (JobReplay, RecordedLog), with the defaults above
/// for absent fields.
template <class Message>
EstimateChoice estimate_choice(const Message& asked, std::uint64_t seed) {
  EstimateChoice choice{.seed = seed};
  if (!asked.estimates().empty()) choice.kind = asked.estimates();
  if (asked.has_estimate_error()) choice.error = asked.estimate_error();
  return choice;
}

/// Estimator of the durations of the jobs of a log. For example, after a user's two 8-GPU jobs of 1
/// h and 3 h, `learned` estimates the next one at 2 h.
class JobEstimates {
 public:
  /// Constructs an estimator. Throws bad_input on an unknown kind.
  explicit JobEstimates(EstimateChoice choice);

  /// Returns true if estimates are the recorded durations.
  bool are_recorded_durations() const { return choice_.kind == "recorded"; }
  /// Returns the estimate of a job at its submission.
  Nanos at_submission(const TraceJob& job) const;
  /// Records the end of a job that ran for `ran`.
  void record_end(const TraceJob& job, Nanos ran);

 private:
  struct Last {
    Nanos newest = 0, before = 0;
    std::uint32_t seen = 0;
  };
  static std::vector<std::string> kinds_of(const TraceJob& job);
  Nanos learned_estimate(const TraceJob& job) const;
  Nanos disturbed(const TraceJob& job) const;

  const EstimateChoice choice_;
  const bool learns_;
  const Rng rng_;
  std::map<std::string, Last> last_;  ///< keyed by kind of job
};

}  // namespace orrery::sim
