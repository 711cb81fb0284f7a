// Progress of a recorded job that does not just run for its recorded duration: it leaves its GPUs
// and continues later, loses work, or runs faster or slower. Kept by sim/jobs/recorded_jobs. Plain
// value; nanoseconds, `now` of the policy clock.
#pragma once

#include "core/ids.hpp"

namespace orrery::sim {

/// Progress of one job. For example, a job of duration 100 s at pace 0.5, started at 0, is due at
/// 200 s.
class JobCourse {
 public:
  /// Records that the job has GPUs again and progresses after `delay`.
  void start(Nanos now, Nanos delay);
  /// Sets the pace: recorded duration per second from now on.
  void set_pace(Nanos now, double pace);
  /// Records that the job has left its GPUs.
  void stop(Nanos now);
  /// Sets the progress back to `kept` of its duration; later work is repeated.
  void fall_back(Nanos kept);
  /// Returns the instant at which the whole duration will be done, if nothing happens.
  Nanos due(Nanos duration) const;

  Nanos done() const { return done_; }  ///< progress in its duration at the newest start or stop
  Nanos served_time() const { return served_; }  ///< time with GPUs up to the newest stop
  /// Returns the part of it that went into delays and repeated work.
  Nanos lost_time() const { return lost_; }

 private:
  void advance_to(Nanos now);

  Nanos served_ = 0, since_ = 0;  ///< time before the newest start, and the instant of that start
  Nanos done_ = 0, mark_ = 0;     ///< progress at an instant
  Nanos delay_ = 0;               ///< time from then on before the job progresses
  Nanos lost_ = 0;
  Nanos worked_ = 0;  ///< time in which `done_` was done
  double pace_ = 1;
};

}  // namespace orrery::sim
