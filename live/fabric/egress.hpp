// Outgoing bytes of a rank: counted, and delayed if a fault slows the rank's NIC. A slow NIC sends
// its input one piece after the other. Thread-safe; bytes, nanoseconds.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "live/machine/host_clock.hpp"

namespace orrery::live {

/// Meter and rate limiter of sent bytes. For example, at 1 MB/s a piece of 0.5 MB waits half a
/// second, and a second piece at the same time waits a second.
class Egress {
 public:
  /// Sets the rate of later turns in bytes per second; 0: unlimited.
  void set_rate(double bytes_per_second) { rate_ = bytes_per_second; }
  /// Wakes all waiting threads; no turn waits any longer, for good. Counting goes on.
  void close();

  /// Turn of some bytes: its constructor waits until these and all previous bytes would have left,
  /// unless the rate is unlimited or close() was called. The bytes count from mark_sent() on, the
  /// time until the end of the turn; a turn without mark_sent() counts neither.
  class Turn {
   public:
    /// Waits for the turn. `egress` must outlive this object.
    Turn(Egress& egress, std::size_t bytes);
    /// Adds the time since the construction, wait included, if mark_sent() was called.
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// Counts the bytes as sent. Call at most once.
    void mark_sent();

   private:
    Egress& egress_;
    const std::size_t bytes_;
    const Clock::time_point start_ = Clock::now();
    bool sent_ = false;
  };

  /// Returns the bytes of all turns that were marked as sent.
  std::uint64_t bytes() const { return bytes_; }
  /// Returns the duration in seconds of all ended turns that were marked as sent, waits included.
  double seconds() const { return static_cast<double>(nanos_) * 1e-9; }

 private:
  void wait_for_turn(std::size_t bytes);

  std::atomic<std::uint64_t> bytes_{0}, nanos_{0};
  std::atomic<double> rate_{0};
  std::mutex mutex_;  // guards everything below
  std::condition_variable closing_;
  bool closed_ = false;
  Clock::time_point free_{};  ///< instant at which the NIC has sent its input
};

}  // namespace orrery::live
