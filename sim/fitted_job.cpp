#include "sim/fitted_job.hpp"

#include <map>
#include <utility>

#include "core/schema/yaml_loader.hpp"
#include "traces/layout_check.hpp"

namespace orrery {
namespace {

Job with_replicas(Job job, std::uint32_t replicas) {
  job.mutable_layout()->set_data(replicas);
  return job;
}

/// As the scenario lays it out; else micro-batches are shared as they come.
bool placed_evenly(const Scenario& scenario, const Standing& where) {
  return where.layout.data == scenario.job().layout().data();
}

}  // namespace

std::string replicas_objection(const Job& job, std::uint32_t replicas) {
  Job other = job;
  fill_defaults(other);
  const auto problems = job_problems(with_replicas(std::move(other), replicas), false);
  return problems.empty() ? "" : "job." + problems.front().path + ": " + problems.front().message;
}

FittedJob::FittedJob(const Scenario& scenario, const Cluster& cluster, const Standing& where,
                     std::vector<std::uint32_t> ranks, const std::vector<GpuId>& home,
                     const Stepper::Options& options, const EngineFactory& engine,
                     std::uint64_t seed)
    : where_(where),
      graph_(with_replicas(scenario.job(), where.layout.data), placed_evenly(scenario, where)),
      placement_(where.gpus.to_vector()),
      ranks_(std::move(ranks)),
      stepper_(cluster, graph_, placement_, options, engine),
      telemetry_(cluster, graph_, placement_, scenario.noise(), seed) {
  if (placement_ == home) return;
  std::map<GpuId, std::uint32_t> here;
  for (std::uint32_t rank = 0; rank < placement_.size(); ++rank) here[placement_[rank]] = rank;
  for (const GpuId gpu : home) {
    const auto found = here.find(gpu);
    by_home_.push_back(found == here.end() ? -1 : std::int64_t{found->second});
  }
}

HardwareState FittedJob::local(HardwareState state) const {
  if (at_home() || state.slow.empty()) return state;
  std::map<std::uint32_t, double> slow;
  for (const auto& [rank, factor] : state.slow) {
    if (by_home_[rank] >= 0) slow[static_cast<std::uint32_t>(by_home_[rank])] = factor;
  }
  state.slow = std::move(slow);
  return state;
}

std::vector<RankId> FittedJob::local(const std::vector<RankId>& ranks) const {
  if (at_home()) return ranks;
  std::vector<RankId> here;
  for (const RankId rank : ranks) {
    const std::int64_t found = by_home_[rank.value];
    if (found >= 0) here.push_back({static_cast<std::uint32_t>(found)});
  }
  return here;
}

std::pair<Standing, std::vector<std::uint32_t>> working_part(const JobInfo& job) {
  const std::vector<bool> lost = lost_replicas(job);
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < job.gpus.size(); ++rank) {
    if (!lost[job.layout.replica_of({rank})]) ranks.push_back(rank);
  }
  return {without_lost(job), std::move(ranks)};
}

}  // namespace orrery
