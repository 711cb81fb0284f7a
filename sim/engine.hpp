// The simulation engine as the rest of the room sees it: work on hosts, flows over sets of links,
// timers, and one run(). SimGrid stands behind it, driven by callbacks alone (no actors); every
// change of a resource happens inside run(), from a timer, because SimGrid misses some of those
// made between runs. One Engine per process, used from one thread.
// Units: seconds of the engine's own clock, bytes, bytes per second. A host of speed 1 does one
// second of work in a second.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace orrery {

class Engine {
 public:
  /// What to do when something ended; false: it failed (a link on its way went down).
  using Done = std::function<void(bool ok)>;
  using Handle = std::uint64_t;

  /// `hosts` of speed 1 and `links`, all up; a link needs set_bandwidth() before its first use.
  Engine(std::uint32_t hosts, std::uint32_t links);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  double now() const;
  std::uint32_t hosts() const;
  std::uint32_t links() const;

  /// Calls `what` after `delay` >= 0.
  void after(double delay, std::function<void()> what);
  /// `work` seconds at speed 1, on one host; several on one host share it.
  Handle compute(std::uint32_t host, double work, Done done);
  /// One fluid activity over all `links` at once: at rate r it takes r from each link, and k x r
  /// from one that appears k times. Ends when `bytes` have passed at that rate.
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done);

  /// Changes what is under way too, from this instant on.
  void set_speed(std::uint32_t host, double speed);
  void set_bandwidth(std::uint32_t link, double bandwidth);
  /// A link that goes down fails the flows on it; one that starts over it fails at once.
  void set_link_up(std::uint32_t link, bool up);

  /// Runs until nothing is left to happen. The first thing to happen must be started by after().
  void run();
  /// Forgets everything under way, without telling anybody; only inside run().
  void cancel_all();

  /// Activities and timers that have ended since the start.
  std::uint64_t events() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery
