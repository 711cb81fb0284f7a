// The engine in which everything shares: SimGrid's fluid model of hosts and links, driven by
// callbacks alone (no actors). Faults go through timers inside run(), because SimGrid misses some
// of those made between runs. Several computations on one host share it. Used where steps are
// simulated; one per process, one thread. Units: sim/engine.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "sim/engine.hpp"

namespace orrery {

class SimGridEngine : public Engine {
 public:
  /// Throws an internal Error if the process has one already.
  SimGridEngine(std::uint32_t hosts, std::uint32_t links);
  ~SimGridEngine() override;

  double now() const override;
  std::uint32_t hosts() const override;
  std::uint32_t links() const override;
  void after(double delay, std::function<void()> what) override;
  Handle compute(std::uint32_t host, double work, Done done) override;
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) override;
  void set_speed(std::uint32_t host, double speed) override;
  void set_bandwidth(std::uint32_t link, double bandwidth) override;
  void set_link_up(std::uint32_t link, bool up) override;
  void run() override;
  void cancel_all() override;
  std::uint64_t events() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An EngineFactory.
std::unique_ptr<Engine> simgrid_engine(std::uint32_t hosts, std::uint32_t links);

}  // namespace orrery
