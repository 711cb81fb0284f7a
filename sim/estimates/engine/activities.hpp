// Activities in progress of an engine whose flows share links. Used by
// sim/estimates/engine/sharing_engine; one thread. Seconds of the engine's clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/tables/huge_pages.hpp"
#include "sim/estimates/engine/engine.hpp"

namespace orrery::estimates {

/// Links of a flow, each in a row as often as the flow crosses the link. A few need no memory of
/// their own.
class FlowLinks {
 public:
  void set_links(std::span<const std::uint32_t> links) {
    count_ = static_cast<std::uint32_t>(links.size());
    if (count_ > near_.size()) {
      far_.assign(links.begin(), links.end());
    } else {
      std::copy(links.begin(), links.end(), near_.begin());
    }
  }
  void clear() { count_ = 0; }
  std::span<const std::uint32_t> all() const {
    return {count_ > near_.size() ? far_.data() : near_.data(), count_};
  }
  /// Calls `visit` with each link once, and how often the flow crosses the link.
  template <typename Visit>
  void for_each_link(Visit visit) const {
    const std::span<const std::uint32_t> links = all();
    for (std::size_t i = 0; i < links.size();) {
      std::size_t next = i + 1;
      while (next < links.size() && links[next] == links[i]) ++next;
      visit(links[i], next - i);
      i = next;
    }
  }

 private:
  std::uint32_t count_ = 0;
  std::array<std::uint32_t, 5> near_{};
  std::vector<std::uint32_t> far_;
};

/// Activities in progress by place, the number of a reused record. A step of many ranks has more of
/// them than the caches hold: a computation needs one cache line, a flow two. Not thread-safe.
class Activities {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr double kUnitsOfWork = 1e9;  ///< units in a second of work: nanoseconds

  struct alignas(64) Activity {
    Engine::Done done;
    std::uint64_t number = 0;    ///< order of starting; 0: not active
    std::uint32_t turn = 0;      ///< tells its present end from those reckoned before
    std::uint32_t host = kNone;  ///< host of a computation
    double left = 0, since = 0;  ///< units at the instant `since`
  };
  /// Rest of an activity that is a flow.
  struct alignas(64) Flow {
    double rate = 0;      ///< units per second
    bool shared = false;  ///< meets others: the model of sharing determines its end
    bool failed = false;
    FlowLinks links;
  };

  /// Starts an activity now, and returns its place.
  std::uint32_t add_activity(Engine::Done done, double now) {
    if (free_.empty()) {
      free_.push_back(size());
      activities_.emplace_back();
      flows_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    Activity& activity = activities_[place];
    activity.done = std::move(done);
    activity.number = ++started_;
    activity.since = now;
    return place;
  }
  /// Ends the activity of a place, which is free from now on.
  void end_activity(std::uint32_t place) {
    reset(place);
    free_.push_back(place);
  }
  /// Ends all activities.
  void clear() {
    free_.clear();
    for (std::uint32_t place = 0; place < size(); ++place) end_activity(place);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(activities_.size()); }
  Activity& operator[](std::uint32_t place) { return activities_[place]; }
  Flow& flow(std::uint32_t place) { return flows_[place]; }
  /// Loads an activity into the caches.
  void prefetch(std::uint32_t place) const { __builtin_prefetch(&activities_[place]); }

  double rate_of(std::uint32_t place) const {
    return activities_[place].host == kNone ? flows_[place].rate : kUnitsOfWork;
  }
  /// Returns the units that are left of an activity.
  double left_of(std::uint32_t place, double now) const {
    const Activity& activity = activities_[place];
    return activity.left - (now - activity.since) * rate_of(place);
  }
  /// Returns the places of the flows over a link.
  std::vector<std::uint32_t> flows_over(std::uint32_t link) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t place = 0; place < size(); ++place) {
      const std::span<const std::uint32_t> links = flows_[place].links.all();
      if (std::find(links.begin(), links.end(), link) != links.end()) found.push_back(place);
    }
    return found;
  }

 private:
  void reset(std::uint32_t place) {
    Activity& activity = activities_[place];
    activity.done = nullptr;
    activity.number = 0;
    if (std::exchange(activity.host, kNone) != kNone) return;
    flows_[place].links.clear();
    flows_[place].shared = flows_[place].failed = false;
  }

  HugeVector<Activity> activities_;
  HugeVector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::uint64_t started_ = 0;
};

}  // namespace orrery::estimates
