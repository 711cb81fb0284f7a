// Clocks of the host that live mode reads. Times are nanoseconds; thread-safe.
#pragma once

#include <chrono>
#include <ctime>

#include "core/ids.hpp"

namespace orrery::live {

/// Monotonic clock of this machine.
using Clock = std::chrono::steady_clock;

/// Returns the time since `start`, in nanoseconds.
inline Nanos since(Clock::time_point start) {
  return (Clock::now() - start) / std::chrono::nanoseconds(1);
}

namespace detail {
inline Nanos read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return Nanos{now.tv_sec} * kNanosPerSecond + now.tv_nsec;
}
}  // namespace detail

/// Returns the CPU time of the calling thread.
inline Nanos thread_cpu() { return detail::read_clock(CLOCK_THREAD_CPUTIME_ID); }
/// Returns the CPU time of this process, all threads.
inline Nanos process_cpu() { return detail::read_clock(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace orrery::live
