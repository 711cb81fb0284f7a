#include "sim/chakra/faulted_collective.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::sim {

FaultedCollective::FaultedCollective(const Cluster& cluster, const estimates::CostProfile& profile,
                                     const estimates::CollectiveSchedule& schedule, double bytes,
                                     FaultPlan& faults)
    : cluster_(cluster), profile_(profile), schedule_(schedule), bytes_(bytes), faults_(faults) {}

double FaultedCollective::phase_seconds(const estimates::CollectivePhase& phase,
                                        const estimates::HardwareState& state) const {
  double slowest = 0;
  for (const estimates::LinkLoad& load : phase.links) {
    slowest = std::max(slowest, load.flows * state.link_slow_of(load.link) /
                                    estimates::link_rate(cluster_, profile_, load.link));
  }
  return slowest * bytes_ * phase.share;
}

std::optional<LinkId> FaultedCollective::lost_link(const estimates::CollectivePhase& phase,
                                                   const estimates::HardwareState& state) const {
  for (const estimates::LinkLoad& load : phase.links) {
    if (state.down.contains(load.link.value)) return load.link;
  }
  return {};
}

Nanos FaultedCollective::whole_time(const estimates::HardwareState& state) {
  const auto [entry, fresh] = known_.emplace(state, 0);
  for (const estimates::CollectivePhase& phase : schedule_.phases) {
    if (!fresh || entry->second == kNever) break;
    entry->second = lost_link(phase, state)
                        ? kNever
                        : entry->second + to_nanos(phase.latency.value) +
                              to_nanos(phase_seconds(phase, state));
  }
  return entry->second;
}

Nanos FaultedCollective::run_phase(const estimates::CollectivePhase& phase, Step step, Nanos at) {
  at += to_nanos(phase.latency.value);
  double left = 1;
  for (;;) {
    const estimates::HardwareState state = faults_.state(step, at);
    faults_.mark_felt(step, at);
    if (const auto lost = lost_link(phase, state)) {
      const auto up = faults_.up_again(*lost, step, at);
      if (!up) {
        throw Error(ErrorKind::bad_input,
                    fmt::format("faults: expected a link that returns, found {} down for ever from "
                                "{:g} s on: give the fault an end, or fabric.reroute",
                                cluster_.link_name(*lost), to_seconds(at)));
      }
      at = *up;
      continue;
    }
    const double seconds = phase_seconds(phase, state);
    const Nanos rest = to_nanos(left * seconds);
    const Nanos change = faults_.next_instant(at).value_or(kNever);
    if (rest <= change - at) return at + rest;
    left -= to_seconds(change - at) / seconds;
    at = change;
  }
}

FaultedCollective::Course FaultedCollective::run(Step steps, Nanos began) {
  Course course;
  course.ended = began;
  const auto add = [&course](Nanos duration, std::uint64_t count) {
    course.durations.emplace_back(duration, count);
  };
  Step step = 0;
  while (step < steps) {
    Nanos& now = course.ended;
    faults_.mark_felt(step, now);
    const Nanos each = whole_time(faults_.state(step, now));
    const Nanos change = faults_.next_instant(now).value_or(kNever);
    const Step same = std::min(steps, faults_.next_change(step).value_or(steps)) - step;
    const Step room = each == kNever ? 0
                                     : static_cast<Step>((change - now) / std::max<Nanos>(each, 1));
    if (const Step count = std::min(same, room); count > 0) {
      add(each, count);
      now += each * static_cast<Nanos>(count);
      step += count;
      continue;
    }
    Nanos at = now;
    for (const estimates::CollectivePhase& phase : schedule_.phases) {
      at = run_phase(phase, step, at);
    }
    add(at - now, 1);
    now = at;
    ++course.simulated;
    ++step;
  }
  return course;
}

}  // namespace orrery::sim
