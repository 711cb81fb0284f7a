// Interface of the discrete-event engine that executes a training step: computations on hosts,
// flows over sets of links, timers, and one blocking run(). Two implementations exist: one whose
// flows share links, in SimGrid or in max_min_shares (sim/estimates/engine/sharing_engine.hpp), and
// a closed-form one, where each flow proceeds as if alone (sim/estimates/engine/free_engine.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace orrery::estimates {

/// Memory that a callback accesses first. A hint: an engine with more pending events than the
/// caches hold loads the memory while the event before is being processed. Engines never read
/// through the addresses, which may be out of date.
struct MemoryHint {
  std::array<const void*, 4> addresses{};  ///< null: none
};

/// Discrete-event engine with hosts and links, numbered from 0; every number passed must be below
/// hosts() or links() (not checked). Activities start inside run(), from callbacks, the first one
/// from a timer; speeds, bandwidths and states of links may be set outside of run() too, while no
/// activity exists. Each engine states the order of the callbacks at one instant. Not thread-safe:
/// one thread per engine. Times are seconds of the engine's own clock, sizes are bytes, rates are
/// bytes per second. A host of speed 1 does one second of work per second.
///
/// For example, an activity of 2 seconds of work on a host of speed 0.5 ends 4 seconds later.
class Engine {
 public:
  /// Completion callback of an activity. `ok` is false if the activity failed because one of its
  /// links went down. Captures of up to 16 bytes need no allocation.
  using Done = std::function<void(bool ok)>;
  /// Serial number of a started activity.
  using Handle = std::uint64_t;

  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Returns the current time of the engine's clock, in seconds.
  virtual double now() const = 0;
  /// Returns the number of hosts.
  virtual std::uint32_t hosts() const = 0;
  /// Returns the number of links.
  virtual std::uint32_t links() const = 0;

  /// Calls the callback once, `delay` seconds from now, never within this call; `delay` >= 0. May
  /// be called outside of run(), whose next call then waits for the delay.
  void after(double delay, std::function<void()> what) { start_timer(delay, std::move(what), {}); }
  /// Starts a timer as after() does, for a callback that accesses the memory of `hint`.
  virtual void start_timer(double delay, std::function<void()> what, const MemoryHint& hint) = 0;
  /// Starts a computation of `work` seconds at speed 1 (0 if negative) and returns the number of
  /// the activity. A host executes one computation at a time: call only while `host` has none; the
  /// SimGrid engine throws an internal Error otherwise, the closed-form engine does not check.
  virtual Handle start_computation(std::uint32_t host, double work, Done done) = 0;
  /// Starts one fluid activity over all `links` at once and returns the number of the activity. A
  /// flow of rate r uses the bandwidth r of each link, and k x r of a link that is listed k times
  /// in a row. The activity ends when `bytes` have passed at that rate; without links or bytes, at
  /// this instant. The callback never runs within this call. Each of the links must have a
  /// bandwidth above 0 by then.
  ///
  /// For example, 1e9 bytes over a link of 100e9 bytes per second that is listed twice take 0.02 s.
  virtual Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) = 0;

  /// Sets the speed (> 0) of a host, from this instant on, for current computations too.
  virtual void set_speed(std::uint32_t host, double speed) = 0;
  /// Sets the bandwidth (> 0) of a link in bytes per second, from this instant on, for current
  /// flows too.
  virtual void set_bandwidth(std::uint32_t link, double bandwidth) = 0;
  /// Marks a link as up or down. A link that goes down fails its current flows; a flow that starts
  /// over a link that is down fails at once. Callbacks of failed flows run later in the same
  /// instant, not within this call. A link that goes up again revives no failed flow. Until these
  /// callbacks have run, set no bandwidth of the links of the failed flows: a flow with another
  /// bandwidth may continue.
  virtual void set_link_up(std::uint32_t link, bool up) = 0;

  /// Blocks until no activity and no timer is left. The caller must have started a timer before the
  /// call; all other activities start from callbacks. Do not call within a callback. May be called
  /// again: the clock continues.
  virtual void run() = 0;
  /// Cancels all activities and timers without calling their callbacks; events() does not count
  /// them. Call only inside run(); the calling callback may then start new activities.
  virtual void cancel_all() = 0;

  /// Returns true if run_parts() may be called.
  virtual bool can_run_parts() const { return false; }
  /// Runs `parts` parts of a simulation that do not affect each other until they pause, one after
  /// the other and each from the present instant on: `begin` starts the activities of a part.
  /// Blocks until each part has paused or has no activity left; the next run() continues all of
  /// them together, from the first event that is left. A part accesses the same memory again and
  /// again, which stays in the caches. Call outside of run(), without activities and timers.
  ///
  /// No flow may cross a link of another part before the latest pause. For example, replicas that
  /// pause at their first collective, which waits for all of them.
  virtual void run_parts(std::uint32_t parts, const std::function<void(std::uint32_t)>& begin) {
    static_cast<void>(parts), static_cast<void>(begin);
  }
  /// Pauses the present part at this instant, at the end of the current callback: no callback of
  /// the part runs before the next run(). Call only inside run_parts().
  virtual void pause_part() {}

  /// Returns the number of activities and timers that ended or failed since the engine was created;
  /// cancelled ones do not count.
  virtual std::uint64_t events() const = 0;
  /// Returns true if flows that meet on a link slow each other.
  virtual bool shares_links() const { return true; }

 protected:
  Engine() = default;
};

/// Number of hosts and links that an engine has or must have.
struct EngineRoom {
  std::uint32_t hosts = 0, links = 0;
};

/// Function that creates an engine with `hosts` of speed 1 and `links` that are all up. Call
/// set_bandwidth() for a link before its first use.
using EngineFactory =
    std::function<std::shared_ptr<Engine>(std::uint32_t hosts, std::uint32_t links)>;

}  // namespace orrery::estimates
