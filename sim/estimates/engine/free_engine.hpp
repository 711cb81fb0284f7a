// Contention-free engine: a queue of instants without SimGrid. Prediction and planning price a step
// with this engine, over the same programs and plans as a simulation.
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

/// Engine in which nothing shares: a computation has its host to itself, and a flow proceeds at the
/// rate that its own links give to this flow alone, min over its links of bandwidth / times listed.
/// Events of one instant happen in the order in which their ends were scheduled: at the start of a
/// timer or an activity, and anew at a change of the activity's pace (set_speed(),
/// set_bandwidth()). Flows that fail together end in no particular order. A process may have any
/// number of these engines; each is used from one thread. Units: sim/estimates/engine/engine.hpp.
///
/// For example, 1e9 bytes over links of 100e9 and 50e9 bytes per second take 0.02 s beside any
/// number of other flows.
class FreeEngine : public Engine {
 public:
  /// Creates `hosts` of speed 1 and `links` that are up, with bandwidth 0. Two computations on one
  /// host at a time do not slow each other.
  FreeEngine(std::uint32_t hosts, std::uint32_t links)
      : speeds_(hosts, 1.0), bandwidths_(links, 0), up_(links, true) {}

  double now() const override { return now_; }
  std::uint32_t hosts() const override { return static_cast<std::uint32_t>(speeds_.size()); }
  std::uint32_t links() const override { return static_cast<std::uint32_t>(up_.size()); }
  void start_timer(double delay, std::function<void()> what, const MemoryHint& hint) override;
  Handle start_computation(std::uint32_t host, double work, Done done) override;
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) override;
  void set_speed(std::uint32_t host, double speed) override;
  void set_bandwidth(std::uint32_t link, double bandwidth) override;
  void set_link_up(std::uint32_t link, bool up) override;
  void run() override;
  void cancel_all() override;
  std::uint64_t events() const override { return events_; }
  bool shares_links() const override { return false; }

 private:
  static constexpr std::uint32_t kNoHost = std::numeric_limits<std::uint32_t>::max();

  /// Computation or flow that has started and not ended. Records are reused; `turn` tells the
  /// present end of an activity from invalid earlier ones.
  struct Activity {
    Done done;
    std::uint32_t turn = 0;
    bool active = false;
    std::uint32_t host = kNoHost;      ///< host of a computation; kNoHost for a flow
    std::vector<std::uint32_t> links;  ///< links of a flow, repeated links in a row
    double left = 0, since = 0;        ///< seconds of work or bytes left at the last update
    double each = 0;                   ///< seconds per second of work, or per byte
  };
  /// Pending end of an activity, or of a timer if `timer` is true.
  struct End {
    std::uint32_t place, turn;
    bool timer, ok;
  };

  /// Allocates the record of a new activity and returns its index.
  std::uint32_t allocate_activity(Done done);
  /// Schedules the end of an activity at its present pace; immediately, as a failure, if not `ok`.
  /// Earlier scheduled ends of the same activity become invalid.
  void schedule(std::uint32_t place, bool ok = true);
  /// Returns true if all links are up, also for no links.
  bool are_up(std::span<const std::uint32_t> links) const;
  /// Updates the remaining work of an activity at the old pace and reschedules its end at the new
  /// one.
  void change_pace(std::uint32_t place);
  /// Returns the seconds that one byte of a flow needs at the slowest of its links.
  double seconds_per_byte(std::span<const std::uint32_t> links) const;
  /// Returns true if the activity is a current flow over `link`.
  bool is_flow_over(const Activity& activity, std::uint32_t link) const;
  /// Ends the activity or timer and calls its callback; ignores ends that became invalid.
  void handle_end(const End& end);

  double now_ = 0;
  std::uint64_t started_ = 0, events_ = 0;
  std::vector<double> speeds_, bandwidths_;
  std::vector<bool> up_;
  std::vector<Activity> activities_;
  std::vector<std::function<void()>> timers_;
  std::vector<std::uint32_t> free_activities_, free_timers_;
  Calendar<End> calendar_;
};

/// Creates a contention-free engine; usable as an EngineFactory.
std::unique_ptr<Engine> free_engine(std::uint32_t hosts, std::uint32_t links);

}  // namespace orrery::estimates
