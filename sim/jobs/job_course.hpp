// How far a recorded job is that does not just run for as long as it did: one that leaves its GPUs
// and goes on later, loses work, or gets on faster and slower. Kept by sim/jobs/recorded_jobs.
// Plain value; nanoseconds, `now` of the policy clock.
#pragma once

#include "core/ids.hpp"

namespace orrery::sim {

class JobCourse {
 public:
  /// It has GPUs again, and gets on after `delay`.
  void start(Nanos now, Nanos delay);
  /// From now on it does so much of its duration in a second.
  void set_pace(Nanos now, double pace);
  /// It has left its GPUs.
  void stop(Nanos now);
  /// It goes on from what it had done by then, of its duration; what came after is done again.
  void fall_back(Nanos kept);
  /// When it will have done all of its duration, if nothing happens.
  Nanos due(Nanos duration) const;

  Nanos done() const { return done_; }      ///< of its duration, when it last started or stopped
  Nanos served() const { return served_; }  ///< time with GPUs, up to when it last stopped
  /// Of that, what went into delays and into work that was done again.
  Nanos lost() const { return lost_; }

 private:
  void pass(Nanos now);

  Nanos served_ = 0, since_ = 0;  ///< before it was last started, and when that was
  Nanos done_ = 0, mark_ = 0;     ///< up to an instant
  Nanos delay_ = 0;               ///< from then on, before it gets on
  Nanos lost_ = 0;
  Nanos worked_ = 0;  ///< time in which `done_` was done
  double pace_ = 1;
};

}  // namespace orrery::sim
