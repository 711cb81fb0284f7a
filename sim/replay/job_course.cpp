#include "sim/replay/job_course.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::sim {

void JobCourse::start(Nanos now, Nanos delay) {
  since_ = mark_ = now;
  delay_ = delay;
}

/// Pace 1 is computed in integers, so that jobs that run as recorded keep their durations to the
/// nanosecond.
void JobCourse::advance_to(Nanos now) {
  const Nanos delayed = std::min(now - mark_, delay_);
  const Nanos works = now - mark_ - delayed;
  delay_ -= delayed;
  lost_ += delayed;
  worked_ += works;
  done_ += pace_ == 1 ? works : std::llround(static_cast<double>(works) * pace_);
  mark_ = now;
}

void JobCourse::set_pace(Nanos now, double pace) {
  advance_to(now);
  pace_ = pace;
}

void JobCourse::stop(Nanos now) {
  advance_to(now);
  served_ += now - since_;
  delay_ = 0;
}

void JobCourse::fall_back(Nanos kept) {
  if (kept >= done_) return;
  const Nanos kept_time = static_cast<Nanos>(
      static_cast<double>(worked_) * (static_cast<double>(kept) / static_cast<double>(done_)));
  lost_ += worked_ - kept_time;
  worked_ = kept_time;
  done_ = kept;
}

Nanos JobCourse::due(Nanos duration) const {
  const Nanos left = std::max<Nanos>(0, duration - done_);
  const Nanos takes =
      pace_ == 1 ? left : static_cast<Nanos>(std::ceil(static_cast<double>(left) / pace_));
  return mark_ + delay_ + takes;
}

}  // namespace orrery::sim
