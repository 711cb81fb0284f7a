// What carries a step out, as the rest of the room sees it: work on hosts, flows over sets of
// links, timers, and one run(). Two engines stand behind it: SimGrid's
// (sim/engine/simgrid_engine.hpp), where flows share links, and a closed-form one
// (sim/estimates/engine/free_engine.hpp), where each goes as if alone. Both are driven by callbacks
// alone; every change of a resource happens inside run(), from a timer. Used from one thread.
// Units: seconds of the engine's own clock, bytes, bytes per second. A host of speed 1 does one
// second of work in a second.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace orrery::estimates {

class Engine {
 public:
  /// What to do when something ended; false: it failed (a link on its way went down). Captures of
  /// up to 16 bytes cost no allocation.
  using Done = std::function<void(bool ok)>;
  using Handle = std::uint64_t;

  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  virtual double now() const = 0;
  virtual std::uint32_t hosts() const = 0;
  virtual std::uint32_t links() const = 0;

  /// Calls `what` after `delay` >= 0.
  virtual void after(double delay, std::function<void()> what) = 0;
  /// `work` seconds at speed 1. A host computes one thing at a time.
  virtual Handle compute(std::uint32_t host, double work, Done done) = 0;
  /// One fluid activity over all `links` at once: at rate r it takes r from each link, and k x r
  /// from one that appears k times. Ends when `bytes` have passed at that rate.
  virtual Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) = 0;

  /// Changes what is under way too, from this instant on.
  virtual void set_speed(std::uint32_t host, double speed) = 0;
  virtual void set_bandwidth(std::uint32_t link, double bandwidth) = 0;
  /// A link that goes down fails the flows on it; one that starts over it fails at once.
  virtual void set_link_up(std::uint32_t link, bool up) = 0;

  /// Runs until nothing is left to happen. The first thing to happen must be started by after().
  virtual void run() = 0;
  /// Forgets everything under way, without telling anybody; only inside run().
  virtual void cancel_all() = 0;

  /// Activities and timers that have ended since the start.
  virtual std::uint64_t events() const = 0;

 protected:
  Engine() = default;
};

/// How many there are, or have to be.
struct EngineRoom {
  std::uint32_t hosts = 0, links = 0;
};

/// Makes an engine with `hosts` of speed 1 and `links`, all up; a link needs set_bandwidth()
/// before its first use.
using EngineFactory =
    std::function<std::shared_ptr<Engine>(std::uint32_t hosts, std::uint32_t links)>;

}  // namespace orrery::estimates
