// How long policies are told that a recorded job will run: never more than was known when it was
// submitted, unless the run asks for the recorded truth. Called by sim/jobs/recorded_jobs as jobs
// come and end. One thread; seconds of the log, nanoseconds in what policies see.
//
// requested  what its user asked for; a job without it as learned
// learned    the mean of the last two jobs that have ended of its kind: the same user, size and
//            name (digits in names left out); where there is none yet the same user and size, then
//            the same virtual cluster and size, then size, then all; one hour before any has ended.
//            The last two of a user is the predictor of Tsafrir, Etsion and Feitelson (2007).
// disturbed  the truth by a log-normal factor of median 1, drawn for each job by its id
// recorded   the truth
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

struct EstimateChoice {
  std::string kind = "recorded";
  double error = 0.5;  ///< disturbed: standard deviation of the factor's logarithm
  std::uint64_t seed = 1;
};

/// What a message of the schema (JobReplay, RecordedLog) asks for; where it says nothing, the
/// defaults above.
template <class Message>
EstimateChoice estimate_choice(const Message& asked, std::uint64_t seed) {
  EstimateChoice choice{.seed = seed};
  if (!asked.estimates().empty()) choice.kind = asked.estimates();
  if (asked.has_estimate_error()) choice.error = asked.estimate_error();
  return choice;
}

class JobEstimates {
 public:
  /// Throws bad_input on an unknown kind.
  explicit JobEstimates(EstimateChoice choice);

  /// They are the jobs' recorded durations.
  bool true_ones() const { return choice_.kind == "recorded"; }
  Nanos at_submission(const TraceJob& job) const;
  void ended(const TraceJob& job, Nanos ran);

 private:
  struct Last {
    Nanos newest = 0, before = 0;
    std::uint32_t seen = 0;
  };
  static std::vector<std::string> kinds_of(const TraceJob& job);
  Nanos learned(const TraceJob& job) const;
  Nanos disturbed(const TraceJob& job) const;

  const EstimateChoice choice_;
  const bool learns_;
  const Rng rng_;
  std::map<std::string, Last> last_;  ///< by kind of job
};

}  // namespace orrery::sim
