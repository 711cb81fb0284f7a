#include "sim/training/job_faults.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/random.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "policies/seam/part_changes.hpp"

namespace orrery::sim {

JobFaults::JobFaults(const JobInWorld& here, const FitCache& fits, const Losses& losses)
    : here_(here),
      fits_(fits),
      losses_(losses),
      plan_(here.scenario(), here.cluster(), fits.numbered()) {}

void JobFaults::continue_from(Step step, Nanos now, const std::set<RankId>& lost_in_step) {
  reported_ = here_.world().state().parts;
  // A rank that was lost in the current step has already been killed by the faults of this step.
  for (const FatalFault& fault : plan_.losses(step, now, now + 1)) {
    const auto rank = rank_at_work(fault.rank.value);
    if (!rank || lost_in_step.contains(*rank)) plan_.mark_spent(fault);
  }
}

std::optional<RankId> JobFaults::rank_at_work(std::uint32_t home_rank) const {
  const auto rank = rank_on(here_.job(), fits_.numbered().at(home_rank));
  return rank && losses_.is_undetected(*rank) ? std::nullopt : rank;
}

std::vector<FatalFault> JobFaults::next_losses(std::optional<Step> step, Nanos from,
                                                          Nanos until) const {
  for (;;) {
    std::vector<FatalFault> lost = plan_.losses(step, from, until);
    const auto absent = std::stable_partition(lost.begin(), lost.end(), [this](const auto& each) {
      return rank_at_work(each.rank.value).has_value();
    });
    std::for_each(absent, lost.end(), [this](const auto& each) { plan_.mark_spent(each); });
    if (absent == lost.begin() && absent != lost.end()) continue;
    lost.erase(absent, lost.end());
    return lost;
  }
}

std::optional<bool> JobFaults::drain_starting_losses(const GpuRuns& gpus, Step step, Nanos now) {
  std::optional<bool> silent;
  const std::set<Part> lost = plan_.lost_parts(step, now);
  for (const FatalFault& each : plan_.losses({}, now, now + 1)) {
    const GpuId gpu = fits_.numbered().at(each.rank.value);
    const NodeId node = here_.cluster().node_of(gpu);
    const bool broken =
        lost.contains({PartKind::gpu, gpu.value}) || lost.contains({PartKind::node, node.value});
    if (broken || !gpus.contains(gpu)) continue;
    plan_.mark_spent(each);
    silent = silent.value_or(false) || each.silent;
  }
  return silent;
}

/// If traffic is spread over several cables, packets in flight over a lost cable or port are sent
/// again over other cables once the loss is detected. Connections with a path over the lost part
/// wait for that time. A random draw decides whether any flow over the link had such a path.
Nanos JobFaults::stalled_by(Nanos instant) const {
  const Cluster::Shape& shape = here_.cluster().shape();
  if (!shape.reroute) return 0;
  for (const FaultPlan::Thinned& each : plan_.thinned(instant)) {
    const bool of_nic = each.by == PartKind::port;  // every connection of the NIC has a path there
    const std::uint64_t flows = of_nic ? 1 : fits_.now()->stepper().flows_over(each.link);
    const bool sampled = shape.transport == Transport::spray && each.by == PartKind::cable;
    const double path = sampled ? std::min(1.0, double{1} * shape.paths / shape.cables) : 1;
    Rng rng = Rng(here_.scenario().run().seed())
                  .split_stream(fmt::format("{} {}", instant, each.link.value));
    const double none = std::pow(1 - path, static_cast<double>(flows));
    if (rng.uniform() >= none) return to_nanos(shape.reroute->value);
  }
  return 0;
}

bool JobFaults::are_parts_healthy(const GpuRuns& gpus) const {
  const ClusterState& state = here_.world().state();
  if (state.parts.empty()) return true;
  return std::all_of(gpus.begin(), gpus.end(), [&](GpuId gpu) {
    return state.is_healthy(gpu, here_.cluster().node_of(gpu));
  });
}

void JobFaults::note_parts(Step step, Nanos at) {
  auto now = reported_parts(plan_.lost_parts(step, at), plan_.removals(step, at));
  for (const PartChanged& change : part_changes(reported_, now)) {
    const auto was = reported_.find(change.part);
    const bool returns = was != reported_.end() && was->second.health == Health::lost &&
                         change.to.health == Health::ok;
    std::erase_if(news_, [&](const auto& each) {
      return each.first > at && each.second.part == change.part;
    });
    news_.emplace_back(at + (returns ? plan_.test_time(change.part) : 0), change);
  }
  reported_ = std::move(now);
}

Nanos JobFaults::next_event_time() const {
  Nanos next = kNever;
  for (const auto& [at, event] : news_) next = std::min(next, at);
  return next;
}

void JobFaults::drain_events(Nanos now, std::vector<Event>& out) {
  for (const auto& [at, event] : news_) {
    if (at <= now) out.emplace_back(event);
  }
  std::erase_if(news_, [now](const auto& each) { return each.first <= now; });
}

}  // namespace orrery::sim
