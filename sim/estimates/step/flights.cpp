#include "sim/estimates/step/flights.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace orrery::estimates {

Flights::Flights(Engine& engine, const std::vector<CommPlan>& comms,
                 std::function<void(const CommPhase&)> failed)
    : engine_(engine), comms_(comms), failed_(std::move(failed)) {
  const auto size = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  for (const CommPlan& comm : comms) {
    first_parts_.push_back(size(parts_));
    for (const CommPhase& phase : comm.phases) {
      for (const WideFlow& part : phase.parts) {
        parts_.push_back({part.share, phase.latency.value, size(links_), false});
        links_.insert(links_.end(), part.links.begin(), part.links.end());
      }
      parts_.back().ends_phase = true;
    }
  }
  first_parts_.push_back(size(parts_));
  parts_.push_back({.first_link = size(links_)});
}

void Flights::start(std::uint32_t comm, double bytes, Seconds coding,
                    std::function<void()> landed) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  flights_[number] = {comm, first_parts_[comm], 0, bytes, std::move(landed)};
  if (coding.value == 0) return next_phase(number);
  engine_.after(coding.value, [this, number] { next_phase(number); });
}

void Flights::next_phase(std::uint32_t number) {
  if (over_) return;
  Flight& flight = flights_[number];
  if (flight.next == first_parts_[flight.comm + 1]) {
    const std::function<void()> landed = std::move(flight.landed);
    free_.push_back(number);
    return landed();
  }
  const Part* part = &parts_[flight.next];
  for (bool more = true; more; ++part) {
    more = !part->ends_phase;
    ++flight.next;
    ++flight.parts_left;
    engine_.flow(std::span(&links_[part->first_link], part[1].first_link - part->first_link),
                 flight.bytes * part->share, [this, number](bool ok) { part_ended(number, ok); });
  }
}

void Flights::part_ended(std::uint32_t number, bool ok) {
  if (over_) return;
  Flight& flight = flights_[number];
  if (!ok) return failed_(current_phase(flight));
  if (--flight.parts_left > 0) return;
  engine_.after(parts_[flight.next - 1].latency, [this, number] { next_phase(number); });
}

const CommPhase& Flights::current_phase(const Flight& flight) const {
  const auto first = parts_.begin() + first_parts_[flight.comm];
  const auto phases = std::count_if(first, parts_.begin() + flight.next,
                                    [](const Part& part) { return part.ends_phase; });
  return comms_[flight.comm].phases[static_cast<std::size_t>(phases) - 1];
}

}  // namespace orrery::estimates
