#include "live/jobs/trace_clock.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/error.hpp"

namespace orrery::live {

TraceClock::TraceClock(double speed, Nanos begin)
    : speed_(speed), begin_(begin), begun_(Real::now()) {
  ensure(speed > 0, "time goes forward");
}

Nanos TraceClock::now() const {
  const std::chrono::duration<double, std::nano> passed = Real::now() - begun_;
  return begin_ + static_cast<Nanos>(std::floor(passed.count() * speed_));
}

std::chrono::nanoseconds TraceClock::real(Nanos span) const {
  // A century at a hundredth of the speed is more than a clock holds.
  constexpr double kLongest = 4e18;
  const double nanoseconds = static_cast<double>(span) / speed_;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::ceil(std::min(nanoseconds, kLongest))));
}

std::chrono::nanoseconds TraceClock::until(Nanos at) const {
  return std::max(real(at - begin_) - (Real::now() - begun_), std::chrono::nanoseconds(0));
}

void TraceClock::sleep_until(Nanos at) const {
  std::this_thread::sleep_until(begun_ + real(at - begin_));
}

}  // namespace orrery::live
