// Knowledge about the jobs of a queue that its observations have shown: durations of jobs that have
// ended, and the newest arrivals. Reads nothing that happens after an observation. Used by
// sim/forecast/twin and sim/forecast/policy_choice. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/random.hpp"
#include "policies/seam/policy.hpp"
#include "sim/forecast/duration_model.hpp"
#include "sim/forecast/forked_queue.hpp"
#include "sim/forecast/possible_durations.hpp"
#include "sim/forecast/queue_snapshot.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// Function that returns the columns of a job, known at its submission.
using ColumnsOf = std::function<JobColumns(const JobSpec&)>;

/// Returns the columns that a JobSpec has: user, virtual cluster and size, without name and limit.
JobColumns columns_of_spec(const JobSpec& job);
/// Returns the columns of a job of a real cluster: those of columns_of_spec(), the title as name,
/// and the estimate, which is the time limit there, as limit.
JobColumns columns_of_request(const JobSpec& job);
/// Returns a function that adds name and limit from the job of the log with the same id; of several
/// jobs with one id the first counts. Copies the columns of `log`.
ColumnsOf columns_of_log(const std::vector<TraceJob>& log);

/// Accuracy of the estimates of durations at submission, as factors max(estimate / duration,
/// duration / estimate) of jobs that have ended.
struct DurationAccuracy {
  std::uint64_t jobs = 0;
  double model_median = 0, by_size_median = 0;      ///< medians of the factor
  double model_mean_log = 0, by_size_mean_log = 0;  ///< means of its natural logarithm
};

/// Learner of durations and arrivals.
class QueueLearner {
 public:
  explicit QueueLearner(ColumnsOf columns) : columns_(std::move(columns)) {}

  /// Reads the events of one observation. Call for each observation, before a forecast.
  void learn_from(const Observation& seen);
  /// Reads the elapsed times of the jobs that run. Call before a forecast.
  void learn_from_running(const QueueSnapshot& now);
  /// Returns the distribution of the duration of a job that has had its GPUs for `served`.
  DurationDistribution duration_of(const JobSpec& job, Nanos served) const;
  /// Returns the kinds of a job, valid until the next learn_from() or learn_from_running().
  DurationModel::JobKinds kinds_for(const JobSpec& job) const {
    return durations_.kinds_for(columns_(job));
  }
  /// Draws jobs that arrive between `from` and `until`: the newest arrivals in random order, with
  /// their gaps; none before 16 arrivals. At most `most` jobs. `possible`: durations of this
  /// future; null: each job has a draw of its own distribution.
  std::vector<LaterJob> draw_arrivals(Nanos from, Nanos until, std::size_t most, Rng& rng,
                                      PossibleDurations* possible = nullptr) const;
  /// Returns the accuracy for the jobs that were submitted from `begin` to before `end`.
  DurationAccuracy accuracy(Nanos begin, Nanos end) const;

 private:
  static constexpr std::size_t kArrivals = 512, kLeastArrivals = 16;

  /// Job that has arrived, with the gap since the arrival before.
  struct Arrival {
    JobSpec spec;
    Nanos gap = 0;
  };
  /// Estimates at the submission of a job, and the duration.
  struct Estimated {
    Nanos submit = 0;
    DurationModel::Medians medians;
    double duration_s = 0;
  };
  void add_arrival(const JobSpec& job);
  void add_end(const JobInfo& job, Nanos ran);
  /// Returns the duration of the arrival `index` at the fraction `u` of its distribution.
  double duration_of_arrival(std::size_t index, double u, PossibleDurations* possible) const;

  const ColumnsOf columns_;
  DurationModel durations_;
  std::vector<Arrival> arrivals_;  ///< ring
  /// Distribution of an arrival and its kinds; nothing: not drawn since the model learned.
  struct Drawn {
    std::optional<DurationDistribution> duration;
    std::optional<DurationModel::JobKinds> kinds;
  };
  mutable std::vector<Drawn> drawn_;  ///< draws of the arrivals at the same places
  std::size_t oldest_ = 0;
  Nanos newest_arrival_ = -1;
  std::map<JobId, DurationModel::Medians> open_;  ///< estimates of jobs that have not ended
  std::vector<Estimated> ended_;
};

}  // namespace orrery::sim
