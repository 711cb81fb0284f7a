#include "sim/training/job_faults.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "core/random.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "policies/seam/part_changes.hpp"

namespace orrery::sim {

std::optional<RankId> rank_at_work(const JobInfo& job, const TrainingState& state,
                                   std::uint32_t home_rank) {
  const auto rank = rank_on(job, state.fits.numbered.at(home_rank));
  return rank && state.losses.is_undetected(*rank) ? std::nullopt : rank;
}

std::vector<FatalFault> next_losses(const JobInfo& job, TrainingState& state,
                                    std::optional<Step> step, Nanos from, Nanos until) {
  FaultPlan& plan = state.faults.plan;
  for (;;) {
    std::vector<FatalFault> lost = plan.losses(step, from, until);
    const auto absent = std::stable_partition(lost.begin(), lost.end(), [&](const auto& each) {
      return rank_at_work(job, state, each.rank.value).has_value();
    });
    for (auto at = absent; at != lost.end(); ++at) {
      plan.mark_spent(*at);
      // The process that starts in the place of a lost rank is struck.
      const bool is_lost = !rank_on(job, state.fits.numbered.at(at->rank.value));
      if (!state.pending || !at->of_process || !is_lost) continue;
      state.pending->struck.push_back({at->at, at->silent, at->detection, at->replacement});
    }
    if (absent == lost.begin() && absent != lost.end()) continue;
    lost.erase(absent, lost.end());
    return lost;
  }
}

std::vector<StruckRank> drain_losses(const JobInfo& job, TrainingState& state,
                                     std::optional<Step> step, Nanos from, Nanos until) {
  const std::vector<FatalFault> lost = next_losses(job, state, step, from, until);
  if (!lost.empty()) note_parts(state.faults, state.step, state.now);
  std::vector<StruckRank> struck;
  std::set<RankId> ranks;
  for (const bool silent : {false, true}) {
    for (const FatalFault& each : lost) {
      if (each.silent != silent) continue;
      state.faults.plan.mark_spent(each);
      const std::optional<RankId> rank = rank_at_work(job, state, each.rank.value);
      if (rank && ranks.insert(*rank).second) struck.push_back({*rank, each});
    }
  }
  return struck;
}

std::vector<FatalFault> drain_starting_losses(const JobInWorld& here, TrainingState& state) {
  std::vector<FatalFault> struck;
  FaultPlan& plan = state.faults.plan;
  const std::set<Part> lost = plan.lost_parts(state.step, state.now);
  for (const FatalFault& each : plan.losses({}, state.now, state.now + 1)) {
    const GpuId gpu = state.fits.numbered.at(each.rank.value);
    const NodeId node = here.cluster().node_of(gpu);
    const bool broken =
        lost.contains({PartKind::gpu, gpu.value}) || lost.contains({PartKind::node, node.value});
    const bool starts = role_of(here.job(state.id), gpu) == ProcessRole::starting;
    if (broken || !starts) continue;
    plan.mark_spent(each);
    struck.push_back(each);
  }
  return struck;
}

/// If traffic is spread over several cables, packets in flight over a lost cable or port are sent
/// again over other cables once the loss is detected. Connections with a path over the lost part
/// wait for that time. A random draw decides whether any flow over the link had such a path.
Nanos stalled_by(const TrainingSetup& setup, const TrainingState& state, Nanos instant) {
  const Cluster::Shape& shape = setup.cluster->shape();
  if (!shape.reroute) return 0;
  for (const FaultPlan::Thinned& each : state.faults.plan.thinned(instant)) {
    const bool of_nic = each.by == PartKind::port;  // every connection of the NIC has a path there
    const std::uint64_t flows = of_nic ? 1 : state.fit().stepper().flows_over(each.link);
    const bool sampled = shape.transport == Transport::spray && each.by == PartKind::cable;
    const double path = sampled ? std::min(1.0, double{1} * shape.paths / shape.cables) : 1;
    Rng rng = Rng(setup.scenario().run().seed())
                  .split_stream(fmt::format("{} {}", instant, each.link.value));
    const double none = std::pow(1 - path, static_cast<double>(flows));
    if (rng.uniform() >= none) return to_nanos(shape.reroute->value);
  }
  return 0;
}

bool are_parts_healthy(const World& world, const GpuRuns& gpus) {
  const ClusterState& state = world.state();
  if (state.parts.empty()) return true;
  return std::all_of(gpus.begin(), gpus.end(), [&](GpuId gpu) {
    return state.is_healthy(gpu, world.cluster().node_of(gpu));
  });
}

namespace {

/// Returns the instant at which a change at `at` is reported. A part that returns is reported after
/// its test; if it changes during the test, the end of the test reports both.
Nanos report_time(const JobFaults& faults, const PartChanged& change, Nanos at) {
  const Nanos test = faults.plan.test_time(change.part);
  if (test == 0 || change.to.health != Health::ok) return at;
  const auto was = faults.reported.find(change.part);
  const bool returns = was != faults.reported.end() && was->second.health == Health::lost;
  Nanos report = at + (returns ? test : 0);
  for (const auto& [later, known] : faults.news) {
    if (known.part == change.part) report = std::max(report, later);
  }
  return report;
}

}  // namespace

void note_parts(JobFaults& faults, Step step, Nanos at) {
  const FaultPlan& plan = faults.plan;
  auto now = reported_parts(plan.lost_parts(step, at), plan.slower_parts(step, at),
                            plan.removals(step, at));
  for (const PartChanged& change : part_changes(faults.reported, now)) {
    const Nanos report = report_time(faults, change, at);
    std::erase_if(faults.news, [&](const auto& each) {
      return each.first > at && each.second.part == change.part;
    });
    faults.news.emplace_back(report, change);
  }
  faults.reported = std::move(now);
}

Nanos next_report_time(const JobFaults& faults) {
  Nanos next = kNever;
  for (const auto& [at, event] : faults.news) next = std::min(next, at);
  return next;
}

void drain_reports(JobFaults& faults, Nanos now, std::vector<Event>& out) {
  for (const auto& [at, event] : faults.news) {
    if (at <= now) out.emplace_back(event);
  }
  std::erase_if(faults.news, [now](const auto& each) { return each.first <= now; });
}

}  // namespace orrery::sim
