// Engine in which flows share links, driven by callbacks alone. Only flows that share a link reach
// the model of sharing (sim/estimates/engine/link_shares). A computation has its host for itself,
// and a flow without other flows on its links ends when its own links allow; both are dates in a
// calendar. A flow that meets another flow goes to the model with its remaining bytes, and stays
// there. Units: sim/estimates/engine/engine.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/engine/link_shares.hpp"

namespace orrery::estimates {

/// Engine that simulates the sharing of links. At one instant the callbacks of timers run first,
/// then those of ended and failed activities in the order of their starts, and so on until no
/// callback is due; ends within 1 ns are one instant.
class SharingEngine : public Engine {
 public:
  /// Units of data in a byte, as LinkShares counts data: parts of a byte stay clear of rounding.
  static constexpr double kUnitsOfByte = 256;

  /// Constructs the engine with hosts of speed 1 and links that are up, with bandwidth 0. `shares`
  /// has as many links, of any bandwidth.
  SharingEngine(std::uint32_t hosts, std::uint32_t links, std::unique_ptr<LinkShares> shares);
  ~SharingEngine() override;

  double now() const override;
  std::uint32_t hosts() const override;
  std::uint32_t links() const override;
  void start_timer(double delay, std::function<void()> what, const MemoryHint& hint) override;
  Handle start_computation(std::uint32_t host, double work, Done done) override;
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) override;
  void set_speed(std::uint32_t host, double speed) override;
  void set_bandwidth(std::uint32_t link, double bandwidth) override;
  /// Limit: a failed flow that meets a new flow on another of its links before its callback runs,
  /// at the same instant, continues instead of failing.
  void set_link_up(std::uint32_t link, bool up) override;
  void run() override;
  void cancel_all() override;
  /// True if the model of sharing can set its clock back.
  bool can_run_parts() const override;
  void run_parts(std::uint32_t parts, const std::function<void(std::uint32_t)>& begin) override;
  void pause_part() override;
  std::uint64_t events() const override;

  /// Returns the number of flows given to the model of sharing since the start, because they met
  /// other flows.
  std::uint64_t shared_flows() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery::estimates
