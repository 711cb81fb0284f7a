#include "sim/estimates/engine/free_engine.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery::estimates {

std::uint32_t FreeEngine::allocate_activity(Done done) {
  if (free_activities_.empty()) {
    free_activities_.push_back(static_cast<std::uint32_t>(activities_.size()));
    activities_.emplace_back();
  }
  const std::uint32_t place = free_activities_.back();
  free_activities_.pop_back();
  activities_[place].done = std::move(done);
  activities_[place].active = true;
  activities_[place].since = now_;
  return place;
}

void FreeEngine::schedule(std::uint32_t place, bool ok) {
  Activity& activity = activities_[place];
  const double at = ok ? now_ + activity.left * activity.each : now_;
  calendar_.add_entry(at, {place, ++activity.turn, false, ok});
}

void FreeEngine::start_timer(double delay, std::function<void()> what, const MemoryHint&) {
  if (free_timers_.empty()) {
    free_timers_.push_back(static_cast<std::uint32_t>(timers_.size()));
    timers_.emplace_back();
  }
  const std::uint32_t place = free_timers_.back();
  free_timers_.pop_back();
  timers_[place] = std::move(what);
  calendar_.add_entry(now_ + delay, {place, 0, true, true});
}

Engine::Handle FreeEngine::start_computation(std::uint32_t host, double work, Done done) {
  const std::uint32_t at = allocate_activity(std::move(done));
  activities_[at].host = host;
  activities_[at].left = std::max(work, 0.0);
  activities_[at].each = 1 / speeds_[host];
  schedule(at);
  return ++started_;
}

bool FreeEngine::are_up(std::span<const std::uint32_t> links) const {
  return std::all_of(links.begin(), links.end(), [this](std::uint32_t link) { return up_[link]; });
}

double FreeEngine::seconds_per_byte(std::span<const std::uint32_t> links) const {
  double slowest = 0;
  for (std::size_t i = 0; i < links.size();) {
    std::size_t next = i + 1;  // repeated links are adjacent
    while (next < links.size() && links[next] == links[i]) ++next;
    const auto times = static_cast<double>(next - i);
    slowest = std::max(slowest, times / bandwidths_[links[i]]);
    i = next;
  }
  return slowest;
}

Engine::Handle FreeEngine::flow(std::span<const std::uint32_t> links, double bytes, Done done) {
  const std::uint32_t at = allocate_activity(std::move(done));
  Activity& activity = activities_[at];
  activity.host = kNoHost;
  activity.links.assign(links.begin(), links.end());
  activity.left = std::max(bytes, 0.0);
  activity.each = seconds_per_byte(links);
  schedule(at, are_up(links));
  return ++started_;
}

void FreeEngine::change_pace(std::uint32_t place) {
  Activity& activity = activities_[place];
  if (activity.each > 0) {
    activity.left = std::max(0.0, activity.left - (now_ - activity.since) / activity.each);
  }
  activity.since = now_;
  activity.each =
      activity.host == kNoHost ? seconds_per_byte(activity.links) : 1 / speeds_[activity.host];
  // A flow over a link that has just failed fails, also at another pace.
  schedule(place, are_up(activity.links));
}

bool FreeEngine::is_flow_over(const Activity& activity, std::uint32_t link) const {
  return activity.active && activity.host == kNoHost &&
         std::find(activity.links.begin(), activity.links.end(), link) != activity.links.end();
}

void FreeEngine::set_speed(std::uint32_t host, double speed) {
  if (std::exchange(speeds_[host], speed) == speed) return;
  for (std::uint32_t place = 0; place < activities_.size(); ++place) {
    if (activities_[place].active && activities_[place].host == host) change_pace(place);
  }
}

void FreeEngine::set_bandwidth(std::uint32_t link, double bandwidth) {
  if (std::exchange(bandwidths_[link], bandwidth) == bandwidth) return;
  for (std::uint32_t place = 0; place < activities_.size(); ++place) {
    if (is_flow_over(activities_[place], link)) change_pace(place);
  }
}

void FreeEngine::set_link_up(std::uint32_t link, bool up) {
  up_[link] = up;
  if (up) return;
  for (std::uint32_t place = 0; place < activities_.size(); ++place) {
    if (is_flow_over(activities_[place], link)) schedule(place, false);
  }
}

void FreeEngine::handle_end(const End& end) {
  if (end.timer) {
    if (!timers_[end.place]) return;  // cancelled
    ++events_;
    const std::function<void()> what = std::exchange(timers_[end.place], nullptr);
    free_timers_.push_back(end.place);
    what();
    return;
  }
  Activity& activity = activities_[end.place];
  if (!activity.active || activity.turn != end.turn) return;
  ++events_;
  activity.active = false;
  const Done done = std::exchange(activity.done, nullptr);
  free_activities_.push_back(end.place);
  if (done) done(end.ok);
}

void FreeEngine::run() {
  while (!calendar_.empty()) {
    now_ = std::max(now_, calendar_.next());
    handle_end(calendar_.pop_entry());
  }
}

void FreeEngine::cancel_all() {
  calendar_.clear();
  free_activities_.clear();
  free_timers_.clear();
  for (std::uint32_t place = 0; place < activities_.size(); ++place) {
    activities_[place].active = false;
    activities_[place].done = nullptr;
    free_activities_.push_back(place);
  }
  for (std::uint32_t place = 0; place < timers_.size(); ++place) {
    timers_[place] = nullptr;
    free_timers_.push_back(place);
  }
}

std::unique_ptr<Engine> free_engine(std::uint32_t hosts, std::uint32_t links) {
  return std::make_unique<FreeEngine>(hosts, links);
}

}  // namespace orrery::estimates
