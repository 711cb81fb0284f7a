#include "sim/estimates/step/flights.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace orrery::estimates {

Flights::Flights(Engine& engine, const std::vector<CommPlan>& comms,
                 std::function<void(const CommPhase&)> failed)
    : engine_(engine), comms_(comms), failed_(std::move(failed)) {
  parts_.resize(comms.size());
  for (std::uint32_t comm = 0; comm < comms.size(); ++comm) {
    std::uint32_t newest = comm;
    for (const CommPhase& phase : comms[comm].phases) {
      for (const WideFlow& flow : phase.parts) newest = add_part(newest, flow, phase.latency);
      parts_[newest].ends_phase = true;
    }
  }
}

std::uint32_t Flights::add_part(std::uint32_t before, const WideFlow& flow, Seconds latency) {
  std::uint32_t index = before;
  if (parts_[before].exists) {
    index = parts_[before].next = static_cast<std::uint32_t>(parts_.size());
    parts_.emplace_back();
  }
  Part& part = parts_[index];
  part.exists = true;
  part.share = flow.share;
  part.latency = latency.value;
  part.links = static_cast<std::uint32_t>(flow.links.size());
  if (part.links <= part.near_links.size()) {
    std::copy(flow.links.begin(), flow.links.end(), part.near_links.begin());
  } else {
    part.far_links = static_cast<std::uint32_t>(far_links_.size());
    far_links_.insert(far_links_.end(), flow.links.begin(), flow.links.end());
  }
  return index;
}

std::span<const std::uint32_t> Flights::links_of(const Part& part) const {
  if (part.links <= part.near_links.size()) return std::span(part.near_links).first(part.links);
  return std::span(far_links_).subspan(part.far_links, part.links);
}

void Flights::start(std::uint32_t comm, double bytes, Seconds coding, std::function<void()> landed,
                    const MemoryHint& hint) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  const std::uint32_t first = parts_[comm].exists ? comm : kNone;
  flights_[number] = {
      .comm = comm, .next = first, .bytes = bytes, .landed = std::move(landed), .hint = hint};
  if (coding.value == 0) return next_phase(number);
  engine_.after(coding.value, [this, number] { next_phase(number); });
}

void Flights::next_phase(std::uint32_t number) {
  if (over_) return;
  Flight& flight = flights_[number];
  if (flight.next == kNone) {
    const std::function<void()> landed = std::move(flight.landed);
    free_.push_back(number);
    return landed();
  }
  for (bool more = true; more;) {
    const Part& part = parts_[flight.next];
    more = !part.ends_phase;
    flight.next = part.next;
    flight.latency = part.latency;
    ++flight.parts_left;
    engine_.flow(links_of(part), flight.bytes * part.share,
                 [this, number](bool ok) { part_ended(number, ok); });
  }
}

void Flights::part_ended(std::uint32_t number, bool ok) {
  if (over_) return;
  Flight& flight = flights_[number];
  if (!ok) return failed_(current_phase(flight));
  if (--flight.parts_left > 0) return;
  MemoryHint hint = flight.hint;
  hint.addresses.back() = &flight;
  engine_.start_timer(
      flight.latency, [this, number] { next_phase(number); }, hint);
}

const CommPhase& Flights::current_phase(const Flight& flight) const {
  std::size_t ended = 0;  // phases before the newest flow that has begun
  for (std::uint32_t part = flight.comm; parts_[part].next != flight.next;
       part = parts_[part].next) {
    if (parts_[part].ends_phase) ++ended;
  }
  return comms_[flight.comm].phases[ended];
}

}  // namespace orrery::estimates
