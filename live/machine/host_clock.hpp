// The clocks of the host that live mode reads. Nanoseconds; thread-safe.
#pragma once

#include <chrono>
#include <ctime>

#include "core/ids.hpp"

namespace orrery::live {

using Clock = std::chrono::steady_clock;

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

/// CPU time of the calling thread.
inline Nanos thread_cpu() { return detail::read_clock(CLOCK_THREAD_CPUTIME_ID); }
/// CPU time of this process, all threads.
inline Nanos process_cpu() { return detail::read_clock(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace orrery::live
