#include "live/rank/heartbeat.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace orrery::live {
namespace {

/// Two heartbeats in every 50 ms, the interval at which policies look at the ranks.
constexpr std::chrono::nanoseconds kShortest = std::chrono::milliseconds(25);
constexpr std::uint32_t kFewRanks = 8;
constexpr int kBeatsInTimeout = 5;

}  // namespace

std::chrono::nanoseconds heartbeat_interval(std::uint32_t ranks, Nanos timeout) {
  const auto interval = kShortest * std::max(ranks, kFewRanks) / kFewRanks;
  return std::max(kShortest,
                  std::min(interval, std::chrono::nanoseconds(timeout) / kBeatsInTimeout));
}

HeartbeatSender::HeartbeatSender(std::chrono::nanoseconds interval, std::function<void()> beat)
    : interval_(interval),
      beat_(std::move(beat)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void HeartbeatSender::run(const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any sleep;
  std::unique_lock lock(mutex);
  do {
    beat_();
  } while (!sleep.wait_for(lock, stop, interval_, [&] { return stop.stop_requested(); }));
}

}  // namespace orrery::live
