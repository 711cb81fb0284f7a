#include "live/run/losses/fault_schedule.hpp"

#include <algorithm>

#include "policies/seam/gpu_runs.hpp"

namespace orrery::live {

FaultSchedule::FaultSchedule(const Scenario& scenario, const Cluster& cluster, std::uint32_t ranks,
                             Step first, const FaultProgress& progress)
    : cluster_(cluster),
      script_(scenario, cluster),
      ranks_(ranks),
      gpus_(GpuRuns::range({0}, ranks).to_vector()),
      first_(first),
      link_rate_(scenario.live().link_rate()),
      begun_(static_cast<std::int64_t>(progress.committed) - 1) {
  if (progress.until) seen_.now = *progress.until;
  for (const FaultInjection& each : progress.injections) {
    const auto fault = static_cast<std::uint32_t>(each.fault);
    injected_.insert(each.fault);
    restored_.insert({each.fault, each.rank});
    if (fault < script_.size()) add_resume(fault, each.rank);
    if (!each.is_noticed) struck_[each.rank] = each.at;
  }
}

void FaultSchedule::add_injections(std::uint32_t fault) {
  const auto begin = static_cast<Step>(script_.begin(fault));
  const bool strikes = script_.is_ending_ranks(fault);
  if (strikes && script_.is_at_step(fault) && begin < first_) return;
  const std::size_t before = waiting_.size();
  const auto strike = [&](std::uint32_t rank) {
    if (rank >= ranks_ || restored_.contains({static_cast<int>(fault), rank})) return;
    waiting_.push_back({.fault = static_cast<int>(fault), .rank = rank});
  };
  for (const FaultTarget& target : script_.targets(fault)) {
    if (!strikes) break;
    if (const auto* rank = std::get_if<RankId>(&target)) {
      strike(rank->value);
      continue;
    }
    for (const GpuId gpu : gpus_of(cluster_, std::get<Part>(target))) strike(gpu.value);
  }
  if (waiting_.size() == before) injected_.insert(static_cast<int>(fault));
}

std::vector<FaultSchedule::Strike> FaultSchedule::due(Step step, Nanos now,
                                                      std::span<const std::uint32_t> members,
                                                      std::span<const std::uint32_t> awaited) {
  // A fault of a step that is repeated after a rollback has begun already.
  const Moment here{std::max(seen_.step, static_cast<std::int64_t>(step)), now};
  for (const FaultGroup& group : script_.due(seen_, here)) {
    for (const std::uint32_t fault : group.faults) add_injections(fault);
  }
  seen_ = here;
  std::vector<Strike> strikes;
  std::erase_if(waiting_, [&](const Strike& strike) {
    const bool there = std::ranges::find(members, strike.rank) != members.end();
    const bool to_come = std::ranges::find(awaited, strike.rank) != awaited.end();
    if (struck_.contains(strike.rank) || (!there && to_come)) return false;
    injected_.insert(strike.fault);
    if (!there) return true;
    struck_[strike.rank] = now;
    add_resume(static_cast<std::uint32_t>(strike.fault), strike.rank);
    strikes.push_back(strike);
    return true;
  });
  return strikes;
}

bool FaultSchedule::is_stop(int fault) const {
  const auto index = static_cast<std::uint32_t>(fault);
  return index < script_.size() && script_.kind(index) == Fault::kStop;
}

bool FaultSchedule::is_stop_over(int fault, Nanos now) const {
  if (!is_stop(fault)) return false;
  const std::optional<Nanos> end = script_.stop_end(static_cast<std::uint32_t>(fault));
  return end && *end <= now;
}

void FaultSchedule::add_resume(std::uint32_t fault, std::uint32_t rank) {
  if (const auto end = script_.stop_end(fault)) resumed_.emplace(*end, rank);
}

std::vector<std::uint32_t> FaultSchedule::drain_resumed(Nanos now) {
  std::vector<std::uint32_t> ranks;
  const auto end = resumed_.upper_bound(now);
  for (auto each = resumed_.begin(); each != end; ++each) ranks.push_back(each->second);
  resumed_.erase(resumed_.begin(), end);
  return ranks;
}

Hardware FaultSchedule::hardware(std::uint32_t rank, Step step, Nanos now) const {
  const Moment at = moment(step, now);
  const GpuId gpu{rank};
  const NodeId node = cluster_.node_of(gpu);
  const Part nic{PartKind::nic, node.value * cluster_.rails() + cluster_.rail_of(gpu)};
  const Condition own = script_.condition(RankId{rank}, at);
  const Condition card = script_.condition(Part{PartKind::gpu, rank}, at);
  const Condition host = script_.condition(Part{PartKind::node, node.value}, at);
  const Condition port = script_.condition(nic, at);
  Hardware hardware;
  hardware.set_speed(1 / (own.slow * card.slow * host.slow));
  hardware.set_link_down(own.link_down || port.down);
  hardware.set_link_rate(link_rate_);
  const double link_slow = own.link_slow * port.slow;
  if (link_slow > 1) {
    const double whole = cluster_.shape().nic_bandwidth.value;
    hardware.set_link_rate((link_rate_ > 0 ? std::min(link_rate_, whole) : whole) / link_slow);
  }
  return hardware;
}

std::set<Part> FaultSchedule::lost_parts(Step step, Nanos now) const {
  return ::orrery::lost_parts(script_, moment(step, now), cluster_, gpus_);
}

std::map<Part, double> FaultSchedule::slower_parts(Step step, Nanos now) const {
  return ::orrery::slower_parts(script_, moment(step, now), cluster_, gpus_);
}

std::optional<Nanos> FaultSchedule::take_hit_time(std::uint32_t rank) {
  const auto struck = struck_.extract(rank);
  if (struck.empty()) return std::nullopt;
  return struck.mapped();
}

}  // namespace orrery::live
