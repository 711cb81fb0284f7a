// Runs of the jobs of a log: each for its recorded duration, unless it leaves its GPUs and
// continues later, or has another pace or size; and the next end. Kept by sim/replay/recorded_jobs;
// one thread. Nanoseconds of the policy clock; jobs by number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <vector>

#include "core/ids.hpp"
#include "sim/replay/job_course.hpp"
#include "sim/replay/numbered_trace.hpp"

namespace orrery::sim {

/// GPUs of a run, and the recorded duration per second on them.
struct RunSize {
  double gpus = 0;  ///< below 1 for a part of a GPU
  double pace = 1;
};

/// GPU-seconds of a job.
struct GpuTime {
  double used = 0;
  double lost = 0;  ///< part of `used` spent on restarts and on work that was lost
};

/// Starts, stops and ends of all jobs of a log. Every `number` must be below the number of jobs of
/// the trace.
class RecordedRuns {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  /// Rules for all jobs.
  struct Rules {
    Nanos restart_cost = 0;  ///< delay of each continuation
    bool paced = false;      ///< jobs have paces
    bool limited = false;    ///< a run ends after the requested time of its job, if there is one
    bool clocked = false;    ///< running jobs have a common clock
  };
  /// Constructs the runs. The trace must outlive this object.
  RecordedRuns(const NumberedTrace& trace, Rules rules);

  /// Records that the job has its GPUs now, in `nodes` nodes, and schedules its end. The job has
  /// not started before, or has been stopped: then it progresses after the restart cost. `size`:
  /// only of a job with is_variable().
  void start(std::uint32_t number, Nanos now, std::uint32_t nodes, RunSize size = {});
  /// Records that an elastic job, which has GPUs, has those of `size` in `nodes` nodes from now on,
  /// and moves its end: it keeps its work and progresses after the restart cost.
  void resize(std::uint32_t number, Nanos now, std::uint32_t nodes, RunSize size);
  /// Sets the pace (above 0), recorded duration per second, from now on, and moves the end. Call
  /// only if constructed with `paced`, and for a job that has its GPUs.
  void set_pace(std::uint32_t number, Nanos now, double pace);
  /// Sets the clock (above 0), recorded duration per second, of all running jobs from now on, and
  /// moves their ends; the pace of a job on its GPUs is multiplied by the clock. Call only if
  /// constructed with `clocked`.
  void set_clock(Nanos now, double clock);
  /// Records that the job, which has its GPUs, leaves them before its end. `keeps`: the job keeps
  /// whole multiples of this work, which is > 0; nothing: all of its work.
  void stop(std::uint32_t number, Nanos now, std::optional<Nanos> keeps);
  /// Returns the instant of the next end; nothing if no job runs.
  std::optional<Nanos> next_end() const {
    drop_void_ends();
    return ends_.empty() ? std::nullopt : std::optional(ends_.top().at);
  }
  /// Ends one job that is due by `now`, the earliest first, and returns its number; kNone if no
  /// further job is due. Call at each next_end(), until kNone: `now` counts as the end.
  std::uint32_t end_one(Nanos now);

  /// Returns true if end_one() has returned the job.
  bool over(std::uint32_t number) const { return jobs_[number].over == 1; }
  Nanos first_start(std::uint32_t number) const { return jobs_[number].start; }  ///< -1: none yet
  /// Returns the number of nodes of the job's newest placement; 0 before the first.
  std::uint32_t nodes(std::uint32_t number) const { return jobs_[number].nodes; }
  /// Returns true if the speed of the job depends on the number or the kind of its GPUs, and jobs
  /// have no paces.
  bool is_variable(std::uint32_t number) const {
    return !rules_.paced && trace_.is_variable(number);
  }
  /// Returns the number of starts and stops of the job so far, its end excluded; 0 before the first
  /// start. A change of size is a stop and a start.
  std::uint32_t move_count(std::uint32_t number) const { return jobs_[number].starts; }
  /// Returns the end of a job that is over.
  Nanos end(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? jobs_[number].start + trace_.duration(number) : way->end;
  }
  /// Returns the time with GPUs of a job that is over.
  Nanos run_time(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? trace_.duration(number) : way->course.served_time();
  }
  /// Returns the number of changes of the job's size so far.
  std::uint32_t resizes(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? 0 : way->resizes;
  }
  /// Returns the recorded duration that a job that is over has done.
  Nanos work_time(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? trace_.duration(number) : way->course.done();
  }
  /// Returns the GPU time of a job that is over and variable; nothing for another job.
  std::optional<GpuTime> gpu_time(std::uint32_t number) const {
    const Way* const way = is_variable(number) ? way_of(number) : nullptr;
    return way == nullptr ? std::nullopt : std::optional(way->gpu_time);
  }
  /// Returns true if a job that is over has reached its time limit before its work was done.
  bool is_timed_out(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way != nullptr && way->end >= way->limit && way->course.done() < trace_.duration(number);
  }
  /// Returns the part of run_time() that went into restarts and lost work.
  Nanos lost_time(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? 0 : way->course.lost_time();
  }

 private:
  /// Common state of a job. Millions are kept to the end of a run, so state that few jobs need is
  /// kept elsewhere.
  struct Job {
    Nanos start = -1;  ///< first start; -1: not yet
    std::uint32_t starts = 0;
    std::uint32_t nodes : 31 = 0;  ///< number of nodes of its newest placement
    std::uint32_t over : 1 = 0;
  };
  static_assert(sizeof(Job) == 16);
  /// State of a job that has left its GPUs, or whose pace or size may not be as recorded.
  struct Way {
    JobCourse course;
    Nanos end = -1;        ///< expected end; later the real one
    Nanos limit = kNever;  ///< instant at which the run must end
    /// earliest end of the newest start in the queue of ends, of a job whose end may move
    mutable Nanos queued = kNever;
    double pace = 1;            ///< pace on its GPUs, without the clock
    double gpus = 0;            ///< present size of a variable job
    std::uint32_t resizes = 0;  ///< changes of its size
    GpuTime gpu_time = {};      ///< GPU time of a variable job up to its newest stop
  };
  struct End {
    Nanos at = 0;
    std::uint32_t job = 0, start = 0;  ///< number of the job's start
    friend auto operator<=>(const End&, const End&) = default;
  };

  /// Returns the state of an unusual job; null if it runs, or ran, from its start to its end as
  /// recorded.
  const Way* way_of(std::uint32_t number) const {
    const bool usual = !has_moving_ends() && !rules_.limited && !trace_.is_variable(number);
    if (jobs_[number].starts < 2 && usual) return nullptr;
    const auto way = ways_.find(number);
    return way == ways_.end() ? nullptr : &way->second;
  }
  /// Returns true if the end of a running job may move while it keeps its GPUs.
  bool has_moving_ends() const { return rules_.paced || rules_.clocked; }
  /// Removes outdated ends from the front of the queue: of jobs that have left their GPUs since,
  /// and ends that have moved. An end that has moved to a later instant is queued once more when
  /// its old instant is the next one, so that changes of a clock do not fill the queue.
  void drop_void_ends() const;
  void expect_end(std::uint32_t number, Way& way);
  /// Stops the course of a job, which loses its work beyond `keeps`, and counts its GPU time.
  static void stop_course(Way& way, Nanos now, std::optional<Nanos> keeps);

  const NumberedTrace& trace_;
  const Rules rules_;
  std::vector<Job> jobs_;
  std::map<std::uint32_t, Way> ways_;
  std::set<std::uint32_t> running_;  ///< jobs with GPUs; empty unless they have a clock
  double clock_ = 1;
  /// outdated ends are skipped
  mutable std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace orrery::sim
