// Communications under way on an engine: what is sent is coded first, then it passes through the
// phases of its plan one after the other, the parts of a phase beside one another. A training step
// owns them; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/plan.hpp"

namespace orrery::estimates {

class Flights {
 public:
  /// `failed`: a flow of that phase could not go on.
  Flights(Engine& engine, std::function<void(const CommPhase&)> failed)
      : engine_(engine), failed_(std::move(failed)) {}

  /// The plan outlives the flight. `coding`: before anything is sent.
  void start(const CommPlan& plan, double bytes, Seconds coding, std::function<void()> landed);
  /// Nothing lands or fails any more.
  void end() { over_ = true; }

 private:
  struct Flight {
    const CommPlan* plan = nullptr;
    double bytes = 0;
    std::function<void()> landed;
    std::uint32_t phase = 0, parts_left = 0;
  };
  void next_phase(std::uint32_t number);
  void part_ended(std::uint32_t number, bool ok);

  Engine& engine_;
  const std::function<void(const CommPhase&)> failed_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_;
  bool over_ = false;
};

}  // namespace orrery::estimates
