// What leaves this rank: counted, and held back where its NIC is to be as slow as a fault says. A
// slow NIC passes on what it is given one after the other. Thread-safe; bytes, nanoseconds.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "live/machine/host_clock.hpp"

namespace orrery::live {

class Egress {
 public:
  /// Bytes a second; 0: as fast as it goes.
  void set_rate(double bytes_per_second) { rate_ = bytes_per_second; }
  /// Nobody waits any longer.
  void close();

  /// The turn of some bytes: waits until the ones before them would have left. Once they are sent()
  /// they count, and until the turn is over its time does.
  class Turn {
   public:
    Turn(Egress& egress, std::size_t bytes);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void sent();

   private:
    Egress& egress_;
    const std::size_t bytes_;
    const Clock::time_point start_ = Clock::now();
    bool sent_ = false;
  };

  std::uint64_t bytes() const { return bytes_; }
  double seconds() const { return static_cast<double>(nanos_) * 1e-9; }

 private:
  void wait_for_turn(std::size_t bytes);

  std::atomic<std::uint64_t> bytes_{0}, nanos_{0};
  std::atomic<double> rate_{0};
  std::mutex mutex_;  // of everything below
  std::condition_variable closing_;
  bool closed_ = false;
  Clock::time_point free_{};  ///< when the NIC has passed on what it was given
};

}  // namespace orrery::live
