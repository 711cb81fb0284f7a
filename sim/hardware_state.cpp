#include "sim/hardware_state.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

bool over(const Fault& fault, Step step) {
  return fault.has_until_step() && step >= fault.until_step();
}

bool begun_by(const Fault& fault, Step step, Nanos now) {
  return fault.has_at_step() ? step >= fault.at_step() : now >= fault.at_time();
}

/// Of a fault given at a step; one given at a time is at its full size at once.
double slow_factor(const Fault& fault, Step step) {
  if (!fault.has_ramp()) return fault.slow();
  if (!fault.has_at_step()) return fault.ramp().slow();
  const double passed = static_cast<double>(step - fault.at_step());
  const double share = std::min(1.0, passed / static_cast<double>(fault.ramp().steps()));
  return 1 + (fault.ramp().slow() - 1) * share;
}

}  // namespace

double HardwareState::slow_of(RankId rank) const {
  const auto found = slow.find(rank.value);
  return found == slow.end() ? 1 : found->second;
}

double HardwareState::link_slow_of(LinkId link) const {
  const auto found = link_slow.find(link.value);
  return found == link_slow.end() ? 1 : found->second;
}

FaultPlan::FaultPlan(const Scenario& scenario, const Cluster& cluster,
                     std::vector<GpuId> placement)
    : cluster_(cluster),
      faults_(scenario.faults().begin(), scenario.faults().end()),
      placement_(std::move(placement)) {}

std::vector<LinkId> FaultPlan::nic_links(std::uint32_t rank) const {
  const GpuId gpu = placement_.at(rank);
  const NodeId node = cluster_.node_of(gpu);
  const std::uint32_t rail = cluster_.rail_of(gpu);
  return {cluster_.nic_out(node, rail), cluster_.nic_in(node, rail)};
}

HardwareState FaultPlan::state(Step step, Nanos now) const {
  HardwareState state;
  for (const Fault& fault : faults_) {
    if (fault.kill() || fault.stop() || over(fault, step) || !begun_by(fault, step, now)) continue;
    if (fault.link_down()) {
      for (const LinkId link : nic_links(fault.rank())) state.down.insert(link.value);
    } else if (fault.has_link_slow()) {
      for (const LinkId link : nic_links(fault.rank())) {
        auto [entry, fresh] = state.link_slow.emplace(link.value, 1.0);
        entry->second *= fault.link_slow();
      }
    } else {
      auto [entry, fresh] = state.slow.emplace(fault.rank(), 1.0);
      entry->second *= slow_factor(fault, step);
    }
  }
  std::erase_if(state.slow, [](const auto& entry) { return entry.second == 1; });
  std::erase_if(state.link_slow, [](const auto& entry) { return entry.second == 1; });
  return state;
}

std::optional<Step> FaultPlan::next_change(Step step) const {
  Step next = std::numeric_limits<Step>::max();
  for (const Fault& fault : faults_) {
    if (fault.has_until_step() && fault.until_step() > step) {
      next = std::min(next, fault.until_step());
    }
    if (!fault.has_at_step()) continue;
    if (fault.at_step() > step) {
      next = std::min(next, fault.at_step());
    } else if (fault.has_ramp() && step - fault.at_step() < fault.ramp().steps() &&
               !over(fault, step)) {
      next = std::min(next, step + 1);
    }
  }
  if (next == std::numeric_limits<Step>::max()) return {};
  return next;
}

std::optional<FatalFault> FaultPlan::kill(Step step, Nanos from, Nanos until) const {
  std::optional<FatalFault> first;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (!(fault.kill() || fault.stop()) || spent_.contains(i)) continue;
    if (fault.has_at_step() && fault.at_step() != step) continue;
    const Nanos at = fault.has_at_step() ? from : fault.at_time();
    if (at < from || at >= until || (first && first->at <= at)) continue;
    first = {.rank = {fault.rank()},
             .cause = fmt::format("rank {} {}", fault.rank(), fault.stop() ? "stopped" : "killed"),
             .killed = true, .silent = fault.stop(), .at = at, .fault = i};
  }
  return first;
}

FatalFault FaultPlan::cause_of(LinkId link, Step step, Nanos now) const {
  for (const Fault& fault : faults_) {
    if (!fault.link_down() || over(fault, step) || !begun_by(fault, step, now)) continue;
    const std::vector<LinkId> taken = nic_links(fault.rank());
    if (std::find(taken.begin(), taken.end(), link) == taken.end()) continue;
    return {.rank = {fault.rank()}, .cause = fmt::format("NIC of rank {} down", fault.rank()),
            .killed = false, .at = now};
  }
  throw Error(ErrorKind::internal, "a link is down without a fault");
}

std::vector<Nanos> FaultPlan::instants(Nanos from, Nanos until) const {
  std::vector<Nanos> result;
  for (const Fault& fault : faults_) {
    if (fault.has_at_time() && fault.at_time() > from && fault.at_time() < until) {
      result.push_back(fault.at_time());
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::optional<Nanos> FaultPlan::next_instant(Nanos after) const {
  const std::vector<Nanos> all = instants(after, kNever);
  if (all.empty()) return {};
  return all.front();
}

FaultPlan::Touched FaultPlan::touched(Nanos instant) const {
  Touched result;
  for (const Fault& fault : faults_) {
    if (!fault.has_at_time() || fault.at_time() != instant) continue;
    result.ranks.push_back({fault.rank()});
    for (const LinkId link : nic_links(fault.rank())) result.links.push_back(link);
  }
  return result;
}

std::uint64_t FaultPlan::begun(Step step, Nanos now) const {
  return static_cast<std::uint64_t>(std::count_if(
      faults_.begin(), faults_.end(),
      [&](const Fault& fault) { return begun_by(fault, step, now); }));
}

}  // namespace orrery
