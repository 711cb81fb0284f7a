// Progress of a recorded job that deviates from its recorded duration: the job leaves its GPUs and
// continues later, loses work, or runs faster or slower. Stored by sim/replay/recorded_runs. Plain
// value. Nanoseconds; `now` is an instant of the policy clock.
#pragma once

#include "core/ids.hpp"

namespace orrery::sim {

/// Progress of one job, measured in time of its recorded duration. For example, a job of duration
/// 100 s at pace 0.5, started at 0 s, is due at 200 s; at 50 s its progress is 25 s.
class JobCourse {
 public:
  /// Records that the job has GPUs from `now` on and progresses after `delay`, at the newest pace
  /// (1 before set_pace()). Call while the job has no GPUs.
  void start(Nanos now, Nanos delay);
  /// Sets the pace, > 0, from `now` on: recorded time per elapsed time; 1: as recorded. Call while
  /// the job has GPUs.
  void set_pace(Nanos now, double pace);
  /// Records that the job has left its GPUs, updates done(), served_time() and lost_time(), and
  /// cancels the rest of its delay. Call while the job has GPUs.
  void stop(Nanos now);
  /// Sets the progress back to `kept`; the time worked beyond, a proportional part, becomes lost
  /// time. Does nothing if the progress is not larger. Call after stop().
  void fall_back(Nanos kept);
  /// Returns the instant at which a job of this duration ends, if it keeps its GPUs and its pace.
  /// If its progress has reached `duration`: the newest change, plus the rest of the delay. Call
  /// while the job has GPUs.
  Nanos due(Nanos duration) const;

  /// Returns the progress at the newest stop or change of pace, or after fall_back(); 0 before.
  Nanos done() const { return done_; }
  /// Returns the time with GPUs up to the newest stop.
  Nanos served_time() const { return served_; }
  /// Returns the part of the time with GPUs that went into delays and into work that was lost, up
  /// to the newest stop or change of pace.
  Nanos lost_time() const { return lost_; }

 private:
  /// Adds the delay and the progress up to `now`.
  void advance_to(Nanos now);

  Nanos served_ = 0, since_ = 0;  ///< time before the newest start, and the instant of that start
  Nanos done_ = 0, mark_ = 0;     ///< progress at the instant `mark_`
  Nanos delay_ = 0;               ///< time from `mark_` on before the job progresses
  Nanos lost_ = 0;
  Nanos worked_ = 0;  ///< time in which the progress `done_` was made
  double pace_ = 1;
};

}  // namespace orrery::sim
