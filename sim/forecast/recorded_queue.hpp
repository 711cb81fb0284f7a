// Counterfactual of a recorded queue: the jobs of a log of `orrery jobs --record` or of a cluster,
// simulated under another policy, and its differences from the record. Called by `orrery replay
// --under`. One thread; nanoseconds of the policy clock.
//
// Submissions, sizes, cancellations and changes of parts are those of the log, and each job needs
// the time with GPUs that it had in the log, preemptions included. This time begins with the
// decision, so that the delay of a real cluster's start belongs to the job. A job that had not
// ended keeps its GPUs until the end of the log. For example, a log in which fifo starts a long job
// at 0 s and a short one at 100 s gives, under sjf, the short job at 0 s and the long one after it:
// the record holds until 0 s, and all that follows is simulated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/forecast/forked_queue.hpp"
#include "sim/forecast/queue_snapshot.hpp"
#include "traces/trace.pb.h"

namespace orrery::sim {

/// Course of one job of a queue.
struct JobInQueue {
  JobSpec spec;
  Nanos arrived = 0;          ///< instant at which the policies saw the job
  std::vector<Nanos> starts;  ///< instants at which the job got its GPUs, ascending
  std::vector<Nanos> stops;   ///< instants at which the runs of `starts` ended, ascending
  Nanos served = 0;           ///< time with GPUs
  Nanos end = kNever;         ///< kNever: the job had not ended

  /// Returns the time with GPUs between instants that are rounded to whole units. For example, runs
  /// from 0.4 to 1.6 s and from 2.4 to 3.6 s have 4 s in units of 1 s.
  Nanos served_in(Nanos unit) const;
};
/// Returns the instant rounded to whole units.
inline Nanos rounded_to(Nanos at, Nanos unit) { return (at + unit / 2) / unit * unit; }

/// Course of a queue from its first to its last instant. Jobs are indexed by their ids in the log.
struct QueueCourse {
  std::vector<JobInQueue> jobs;
  Nanos end = 0;  ///< last instant; waits of jobs that had not ended count up to it

  /// Returns the mean time without GPUs of all jobs, in seconds; 0 without jobs.
  double mean_wait_s() const;
  /// Returns the number of jobs that had not ended.
  std::size_t unended() const;
};

/// Reader of the course of a queue from its observations and decisions, recorded or simulated.
class CourseReader {
 public:
  /// Reads the events of the next observation.
  void add_observation(const Observation& seen);
  /// Reads the decisions on the newest observation, whose instant is `now`.
  void add_decisions(std::span<const Decision> decisions, Nanos now);
  /// Records that a job has GPUs from `now` on; ignored if the job has them already.
  void start_job(JobId job, Nanos now);
  /// Returns the course up to `end`. No calls may follow.
  QueueCourse finish_course(Nanos end);

  /// Returns the number of starts that no policy had decided.
  std::uint64_t undecided() const { return undecided_; }
  /// Returns the changes of parts, and whether the loss of a part stopped jobs.
  const LaterChanges& later_changes() const { return changes_; }

 private:
  /// Decision without an outcome.
  struct Open {
    JobId job;
    Nanos at = 0;
    bool is_release = false;
  };
  /// Assignment in effect of one job.
  struct Standing {
    std::optional<Nanos> since;  ///< begin of its time with GPUs; nothing: without GPUs
    std::optional<Nanos> given;  ///< instant of the applied decision that gives GPUs
    std::optional<Nanos> taken;  ///< instant of the applied decision that takes them
  };
  void add_event(const Event& event, Nanos now);
  void add_outcome(const Decided& outcome);
  void stop_job(JobId job, Nanos now);
  void end_run(JobId job, Nanos at);

  std::vector<JobInQueue> jobs_;
  std::vector<Standing> standing_;
  std::map<DecisionId, Open> open_;
  LaterChanges changes_;
  std::uint64_t undecided_ = 0;
  bool has_lost_part_ = false;  ///< a part was lost in the newest observation
};

/// Event of another job that could have come before or after a decision.
struct CompetingEvent {
  std::string what;         ///< for example "end of 17"; empty: there is none
  Nanos distance = kNever;  ///< time between the event and the decision
};

/// Start of a job that the record and the simulation have at different instants; kNever: not at
/// all.
struct StartDifference {
  std::size_t job = 0;    ///< index in QueueCourse::jobs
  std::size_t start = 1;  ///< number of the job's start, from 1
  Nanos recorded = kNever, simulated = kNever;
  CompetingEvent nearest;  ///< event nearest to the earlier of both instants, at another instant

  /// Returns the earlier of both instants.
  Nanos at() const { return std::min(recorded, simulated); }
};

/// Recorded queue.
class RecordedQueue {
 public:
  /// Reads the log at `path`. Throws bad_input for a file that is not a complete log of a queue.
  explicit RecordedQueue(const std::string& path);
  RecordedQueue(const RecordedQueue&) = delete;
  RecordedQueue& operator=(const RecordedQueue&) = delete;

  /// Returns the replay that the log describes: cluster, policy and placement.
  const JobReplay& replay() const { return header_.replay(); }
  /// Returns the recorded course.
  const QueueCourse& recorded() const { return recorded_; }
  /// Returns the number of recorded starts that no policy had decided.
  std::uint64_t undecided() const { return undecided_; }
  /// Returns the course under the policy, which has not been started. A log without ends of some
  /// jobs is simulated until its end, another one until all jobs have ended. Throws bad_input for a
  /// policy that needs ticks.
  QueueCourse simulate_under(Policy& policy) const;
  /// Returns the different starts of a simulated course, the earliest first.
  std::vector<StartDifference> differences(const QueueCourse& simulated) const;

 private:
  void read_log(const std::string& path);
  LaterJob later_job(const JobInQueue& job) const;
  Nanos simulated_until() const;

  const LogHeader header_;
  const Cluster cluster_;
  std::optional<QueueSnapshot> begin_;  ///< state at the first observation; nothing: no calls
  std::size_t known_ = 0;               ///< number of jobs of the first observation
  QueueCourse recorded_;
  LaterChanges changes_;  ///< changes of parts after the first observation
  std::uint64_t undecided_ = 0;
};

}  // namespace orrery::sim
