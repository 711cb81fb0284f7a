// Heartbeat of a rank: a thread that reports many times a second that the rank's process is alive,
// independently of the other threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <thread>

#include "core/ids.hpp"

namespace orrery::live {

/// Returns the interval between two heartbeats in nanoseconds. The interval grows with the number
/// of ranks, so that the controller's load does not, and is short enough that no live rank exceeds
/// `timeout`, after which a rank without heartbeat counts as lost. For example, 25 ms for up to 8
/// ranks and 50 ms for 16; at most a fifth of `timeout`, but at least 25 ms in any case.
std::chrono::nanoseconds heartbeat_interval(std::uint32_t ranks, Nanos timeout);

/// Thread that sends heartbeats. Owns the thread, which calls `beat`; the destructor ends the
/// thread at once and waits only for a current call. `beat` must not throw.
class HeartbeatSender {
 public:
  /// Starts the thread. Sends the first heartbeat at once, the next ones `interval` after the end
  /// of the previous call.
  HeartbeatSender(std::chrono::nanoseconds interval, std::function<void()> beat);

 private:
  /// Sends heartbeats until `stop` is requested.
  void run(const std::stop_token& stop) const;

  const std::chrono::nanoseconds interval_;
  const std::function<void()> beat_;
  std::jthread thread_;
};

}  // namespace orrery::live
