#include "sim/estimates/step/flights.hpp"

#include <utility>

namespace orrery::estimates {

void Flights::start(const CommPlan& plan, double bytes, Seconds coding,
                    std::function<void()> landed) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  flights_[number] = {.plan = &plan, .bytes = bytes, .landed = std::move(landed)};
  if (coding.value == 0) return next_phase(number);
  engine_.after(coding.value, [this, number] { next_phase(number); });
}

void Flights::next_phase(std::uint32_t number) {
  if (over_) return;
  Flight& flight = flights_[number];
  if (flight.phase == flight.plan->phases.size()) {
    const std::function<void()> landed = std::move(flight.landed);
    free_.push_back(number);
    return landed();
  }
  const CommPhase& phase = flight.plan->phases[flight.phase];
  flight.parts_left = static_cast<std::uint32_t>(phase.parts.size());
  // A flow may end immediately, and later communications may move flights_.
  const double bytes = flight.bytes;
  for (const WideFlow& part : phase.parts) {
    engine_.flow(part.links, bytes * part.share,
                 [this, number](bool ok) { part_ended(number, ok); });
  }
}

void Flights::part_ended(std::uint32_t number, bool ok) {
  if (over_) return;
  Flight& flight = flights_[number];
  const CommPhase& phase = flight.plan->phases[flight.phase];
  if (!ok) return failed_(phase);
  if (--flight.parts_left > 0) return;
  ++flight.phase;
  engine_.after(phase.latency.value, [this, number] { next_phase(number); });
}

}  // namespace orrery::estimates
