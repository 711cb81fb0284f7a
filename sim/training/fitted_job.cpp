#include "sim/training/fitted_job.hpp"

#include <algorithm>
#include <utility>

#include "policies/seam/fabric_rules.hpp"

namespace orrery::sim {
namespace {

/// Returns true if all replicas of the scenario work, so that micro-batches are divided evenly;
/// otherwise they are divided among the remaining replicas, or those of another layout.
bool placed_evenly(const Scenario& scenario, const Standing& where) {
  return where.layout == layout_of(scenario.job().layout());
}

}  // namespace

FittedJob::FittedJob(const Ground& ground, const Standing& where,
                     std::vector<std::uint32_t> ranks, std::shared_ptr<FittedJob> begun)
    : where_(where),
      begun_(std::move(begun)),
      graph_(graph_of(ground.setup->scenario())),
      thins_(ground.setup->cluster->is_spraying() && !ground.options.full_detail),
      placement_(where.gpus.to_vector()),
      ranks_(std::move(ranks)),
      stepper_(*ground.setup->cluster, *graph_, placement_, ground.options, ground.engine, whole()),
      telemetry_(*ground.setup->cluster, *graph_, placement_, ranks_,
                 ground.setup->scenario().noise(), ground.seed) {}

std::shared_ptr<StepGraph> FittedJob::graph_of(const Scenario& scenario) {
  auto& graphs = begun_ ? begun_->graphs_ : graphs_;
  const auto known = std::find_if(graphs.begin(), graphs.end(),
                                  [this](const auto& each) { return each.first == where_.layout; });
  if (known != graphs.end()) return known->second;
  auto graph = std::make_shared<StepGraph>(with_layout(scenario.job(), where_.layout),
                                           placed_evenly(scenario, where_));
  graphs.emplace_back(where_.layout, graph);
  return graph;
}

bool FittedJob::is_placed_as_in(const FittedJob& whole, std::uint32_t replica,
                             std::uint32_t there) const {
  const auto first = [](const FittedJob& of, std::uint32_t number, std::uint32_t stage) {
    return of.placement_.begin() + of.graph_->rank(number, stage, 0).value;
  };
  for (std::uint32_t stage = 0; stage < graph_->pipeline(); ++stage) {
    const auto here = first(*this, replica, stage);
    if (!std::equal(here, here + graph_->members(), first(whole, there, stage))) return false;
  }
  return true;
}

/// The plan of the first fit is reusable only if all replicas are still on their first GPUs, in the
/// same order.
estimates::Stepper::Whole FittedJob::whole() const {
  if (!begun_) return {};
  const ParallelLayout& as_then = begun_->where_.layout;
  const bool is_part = where_.layout.has_replicas_of(as_then) && where_.layout.data < as_then.data;
  if (!is_part) return {};
  estimates::Stepper::Whole whole{.stepper = &begun_->stepper_, .kept = {}};
  std::uint32_t there = 0;
  for (std::uint32_t replica = 0; replica < where_.layout.data; ++replica) {
    while (there < as_then.data && !is_placed_as_in(*begun_, replica, there)) ++there;
    if (there == as_then.data) return {};
    whole.kept.push_back(there++);
  }
  return whole;
}

const std::vector<StorageNodes>& FittedJob::storage_nodes() {
  if (storage_nodes_.empty()) {
    storage_nodes_ = sim::storage_nodes(stepper_.cluster(), *graph_, placement_);
  }
  return storage_nodes_;
}

std::optional<std::uint32_t> FittedJob::rank_on(GpuId gpu) const {
  std::uint32_t rank = 0;
  for (const GpuRuns::Run& run : where_.gpus.runs()) {
    if (gpu.value - run.first < run.count) return rank + gpu.value - run.first;
    rank += run.count;
  }
  return {};
}

estimates::HardwareState FittedJob::local(const std::vector<GpuId>& numbered,
                                          estimates::HardwareState state) {
  estimates::RankFactors slow;
  for (const auto& [rank, factor] : state.slow) {
    if (const auto here = rank_on(numbered[rank])) slow[*here] = factor;
  }
  state.slow = std::move(slow);
  if (!thins_) return state;
  std::erase_if(state.link_slow, [this](const auto& entry) {
    return stepper_.has_room({entry.first}, entry.second);
  });
  return state;
}

std::vector<RankId> FittedJob::local(const std::vector<GpuId>& numbered,
                                     const std::vector<RankId>& ranks) const {
  std::vector<RankId> here;
  for (const RankId rank : ranks) {
    if (const auto found = rank_on(numbered[rank.value])) here.push_back({*found});
  }
  return here;
}

std::pair<Standing, std::vector<std::uint32_t>> working_part(const JobInfo& job) {
  const std::vector<bool> lost = lost_replicas(job);
  std::vector<std::uint32_t> ranks;
  ranks.reserve(job.gpus.size());
  const std::uint32_t row = job.layout.replica_stride();  // ranks of one replica
  for (std::uint32_t first = 0; first < job.gpus.size(); first += row) {
    if (lost[job.layout.replica_of({first})]) continue;
    for (std::uint32_t i = 0; i < row; ++i) ranks.push_back(first + i);
  }
  return {without_lost(job), std::move(ranks)};
}

}  // namespace orrery::sim
