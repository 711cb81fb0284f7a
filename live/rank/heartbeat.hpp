// The heartbeat of a rank: a thread that says many times a second that it is alive, whatever the
// others do. The agent starts it; `beat` is called on that thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <thread>

#include "core/ids.hpp"

namespace orrery::live {

/// So that what the controller hears in a second does not grow with the ranks; often enough for
/// none of them to be taken for lost, which it is after `timeout` without a beat.
std::chrono::nanoseconds heartbeat_interval(std::uint32_t ranks, Nanos timeout);

class HeartbeatSender {
 public:
  /// The first beat comes at once.
  HeartbeatSender(std::chrono::nanoseconds interval, std::function<void()> beat);

 private:
  void run(const std::stop_token& stop) const;

  const std::chrono::nanoseconds interval_;
  const std::function<void()> beat_;
  std::jthread thread_;
};

}  // namespace orrery::live
