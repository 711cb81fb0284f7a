#include "live/rank/control_session.hpp"

#include <chrono>
#include <thread>

#include "live/machine/host_clock.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kPatience{10};  // Time to wait for a controller that is gone.
constexpr std::chrono::milliseconds kPause{50};

}  // namespace

std::optional<ControllerMessage> ControlSession::join() {
  const auto deadline = Clock::now() + kPatience;
  std::optional<ControllerMessage> first = client_.read();
  while (!first && Clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    client_.reopen_stream([this] { return last_words(); });
    first = client_.read();
  }
  return first;
}

void ControlSession::keep_message(const AgentMessage& message) {
  const std::scoped_lock lock(mutex_);
  if (message.has_step_report()) report_ = message;
  if (message.has_shard()) shard_ = message;
  if (message.has_failed()) failure_ = message;
}

void ControlSession::send_message(const AgentMessage& message) {
  keep_message(message);
  client_.send_message(message);
}

bool ControlSession::reconnect_stream(const std::function<bool()>& wanted) {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline && wanted()) {
    client_.reopen_stream([this] { return last_words(); });
    const std::optional<ControllerMessage> welcome = client_.read();
    if (welcome && welcome->has_assignment()) return true;
    if (welcome && welcome->has_stop()) return false;  // The controller counts this rank as lost.
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

std::vector<AgentMessage> ControlSession::last_words() {
  const std::scoped_lock lock(mutex_);
  std::vector<AgentMessage> words;
  if (report_) words.push_back(*report_);
  if (shard_) words.push_back(*shard_);
  if (failure_) words.push_back(*failure_);
  return words;
}

}  // namespace orrery::live
