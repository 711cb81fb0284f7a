// The engine in which nothing shares: a computation has its host to itself, and a flow goes at the
// rate that its own links give it alone. A queue of instants, without SimGrid: what prediction
// and planning price a step with, over the same programs and plans as a simulation. Things of one
// instant happen in the order in which they were started. Any number in a process, each used from
// one thread. Units: sim/estimates/engine/engine.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "sim/estimates/engine/calendar.hpp"
#include "sim/estimates/engine/engine.hpp"

namespace orrery::estimates {

class FreeEngine : public Engine {
 public:
  FreeEngine(std::uint32_t hosts, std::uint32_t links)
      : speeds_(hosts, 1.0), bandwidths_(links, 0), up_(links, true) {}

  double now() const override { return now_; }
  std::uint32_t hosts() const override { return static_cast<std::uint32_t>(speeds_.size()); }
  std::uint32_t links() const override { return static_cast<std::uint32_t>(up_.size()); }
  void after(double delay, std::function<void()> what) override;
  Handle compute(std::uint32_t host, double work, Done done) override;
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) override;
  void set_speed(std::uint32_t host, double speed) override;
  void set_bandwidth(std::uint32_t link, double bandwidth) override;
  void set_link_up(std::uint32_t link, bool up) override;
  void run() override;
  void cancel_all() override;
  std::uint64_t events() const override { return events_; }

 private:
  static constexpr std::uint32_t kNoHost = std::numeric_limits<std::uint32_t>::max();

  /// What is under way; `turn` tells a place's present use from its earlier ones.
  struct Activity {
    Done done;
    std::uint32_t turn = 0;
    bool active = false;
    std::uint32_t host = kNoHost;      ///< of a computation
    std::vector<std::uint32_t> links;  ///< of a flow
    double left = 0, since = 0;        ///< seconds of work, or bytes, at the instant `since`
    double each = 0;                   ///< seconds for one of them
  };
  /// The end of an activity or, without one, of a timer's delay.
  struct End {
    std::uint32_t place, turn;
    bool timer, ok;
  };

  std::uint32_t place(Done done);
  void schedule(std::uint32_t place, bool ok = true);
  void change_pace(std::uint32_t place);
  double seconds_per_byte(std::span<const std::uint32_t> links) const;
  bool crosses(const Activity& activity, std::uint32_t link) const;
  void happen(const End& end);

  double now_ = 0;
  std::uint64_t started_ = 0, events_ = 0;
  std::vector<double> speeds_, bandwidths_;
  std::vector<bool> up_;
  std::vector<Activity> activities_;
  std::vector<std::function<void()>> timers_;
  std::vector<std::uint32_t> free_activities_, free_timers_;
  Calendar<End> calendar_;
};

/// An EngineFactory.
std::unique_ptr<Engine> free_engine(std::uint32_t hosts, std::uint32_t links);

}  // namespace orrery::estimates
