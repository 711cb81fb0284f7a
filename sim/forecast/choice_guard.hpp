// Guard of a choice among queue policies: compares the realised goal since the first policy was
// left with the goal that the first policy would have had. Used by sim/forecast/policy_choice. One
// thread; nanoseconds of the policy clock.
//
// The first policy is simulated from the instant at which it was left, with the arrivals that came
// since and the true durations of the jobs that have ended. The durations of the other jobs are
// drawn. Both courses are then continued under the first policy, without further arrivals, until
// the jobs are over: the comparison contains the price of the jobs that a policy has left behind,
// and of the return. For example, if las has shared the GPUs among long jobs for a day, its jobs
// have waited less than under fifo so far, and will all end later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/forecast/forked_queue.hpp"
#include "sim/forecast/queue_forecast.hpp"
#include "sim/forecast/queue_learner.hpp"
#include "sim/forecast/queue_snapshot.hpp"

namespace orrery::sim {

/// Record of the jobs since the first policy was left.
class ChoiceGuard {
 public:
  /// Means of the goal over the jobs since the first policy was left; smaller is better.
  struct Means {
    double realised = 0;  ///< mean under the policies that acted
    double first = 0;     ///< simulated mean under the first policy
  };

  /// `first`: the first policy. `futures`: number of draws, and time in which the jobs may end
  /// (`rest`); the other options are ignored.
  ChoiceGuard(JobReplay first, QueueGoal goal, FutureOptions futures);

  /// Begins the record at this observation, whose decisions another policy makes. Forgets an
  /// earlier record. The cluster of the observation must outlive the record.
  void begin(const Observation& seen);
  /// Ends and forgets the record.
  void end();
  /// Returns true between begin() and end().
  bool is_on() const { return from_.has_value(); }
  /// Reads the arrivals, ends and changes of parts of a later observation. Call for each while
  /// is_on(), before compare_means().
  void record_events(const Observation& seen);
  /// Returns the number of jobs of the record.
  std::size_t jobs() const { return jobs_.size(); }
  /// Returns the means up to this observation and the jobs' ends after it. Call while is_on().
  Means compare_means(const Observation& seen, const QueueLearner& learner) const;

 private:
  /// Job of the snapshot at the begin, or that has arrived since.
  struct Job {
    JobSpec spec;
    Nanos begin = 0;   ///< begin of the record, or arrival
    Nanos before = 0;  ///< time with GPUs before `begin`
    Nanos whole = 0;   ///< duration, once the job has ended
    Nanos end = kNever;
  };
  double cost_of(const Job& job, Nanos whole, Nanos end, Nanos waited) const;
  double realised_sum(const QueueSnapshot& now, const std::vector<Nanos>& left,
                      const std::vector<Nanos>& whole, Nanos until) const;
  double first_sum(const std::vector<Nanos>& whole, Nanos until) const;

  const JobReplay first_;
  const QueueGoal goal_;
  const FutureOptions futures_;
  std::optional<QueueSnapshot> from_;
  std::vector<Job> jobs_;              ///< jobs of `from_`, then later arrivals
  std::map<JobId, std::size_t> open_;  ///< places in jobs_ of the jobs that have not ended
  LaterChanges changes_;
};

}  // namespace orrery::sim
