#include "sim/engine/simgrid_stops.hpp"

#include <simgrid/s4u/Engine.hpp>

namespace orrery::sim {

double SimGridStops::now() { return simgrid::s4u::Engine::get_clock(); }

/// A timer that does nothing makes the clock stop on its way.
void SimGridStops::at(double date) {
  while (!stops_.empty() && stops_.back().first <= now()) stops_.pop_back();
  if (!stops_.empty() && date >= stops_.back().first) return;
  stops_.emplace_back(date, Timer::set(date, [] {}));
}

void SimGridStops::wake_now() {
  if (std::exchange(wake_due_, true)) return;
  Timer::set(now(), [this] {
    wake_due_ = false;
    wake_();
  });
}

void SimGridStops::advance_past_now(double precision) {
  for (; !stops_.empty() && stops_.back().first - now() < precision; stops_.pop_back()) {
    if (stops_.back().first > now()) stops_.back().second->remove();
  }
}

void SimGridStops::clear() {
  for (const auto& [date, stop] : std::exchange(stops_, {})) {
    if (date > now()) stop->remove();
  }
}

}  // namespace orrery::sim
