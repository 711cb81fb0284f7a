#include "sim/plan_base.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// A policy that tries many tables of collectives makes many; old ones hardly come back.
constexpr std::size_t kMostKnown = 8;

}  // namespace

std::uint8_t crossing(const Cluster& cluster, GpuId from, GpuId to) {
  if (cluster.domain_of(from) == cluster.domain_of(to)) return 0;
  const NodeId a = cluster.node_of(from), b = cluster.node_of(to);
  const bool same_rail = cluster.rail_of(from) == cluster.rail_of(to);
  const bool same_unit = cluster.unit_of(a) == cluster.unit_of(b);
  return static_cast<std::uint8_t>(1 + (same_rail ? 0 : 1) + (same_unit ? 0 : 2));
}

std::vector<std::uint32_t> replica_shapes(const Cluster& cluster, const StepGraph& graph,
                                          const std::vector<GpuId>& placement) {
  const bool around = graph.chunks() > 1 && graph.pipeline() > 1;
  const std::uint32_t borders = graph.pipeline() - (around ? 0 : 1);
  std::map<std::vector<std::uint8_t>, std::uint32_t> seen;
  std::vector<std::uint32_t> shapes(graph.data());
  std::vector<std::uint8_t> crossings;
  for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
    crossings.clear();
    for (std::uint32_t stage = 0; stage < borders; ++stage) {
      const std::uint32_t next = (stage + 1) % graph.pipeline();
      for (std::uint32_t member = 0; member < graph.members(); ++member) {
        crossings.push_back(crossing(cluster, placement[graph.rank(replica, stage, member).value],
                                     placement[graph.rank(replica, next, member).value]));
      }
    }
    const auto fresh = static_cast<std::uint32_t>(seen.size());
    shapes[replica] = seen.emplace(crossings, fresh).first->second;
  }
  return shapes;
}

PlanBase::PlanBase(const Cluster& cluster, const StepGraph& graph, const CostProfile& profile,
                   const std::vector<GpuId>& placement)
    : cluster_(cluster), graph_(graph), profile_(profile), placement_(placement),
      counter_(cluster) {}

const std::vector<std::uint32_t>& PlanBase::shapes() {
  if (shapes_.empty()) shapes_ = replica_shapes(cluster_, graph_, placement_);
  return shapes_;
}

std::uint32_t PlanBase::add(std::vector<LinkLoad> links) {
  flows_.push_back(std::make_unique<std::vector<LinkLoad>>(std::move(links)));
  return static_cast<std::uint32_t>(flows_.size() - 1);
}

const PlanBase::Transfer& PlanBase::between(std::uint32_t from, std::uint32_t to, bool back) {
  const auto [entry, fresh] = transfers_.try_emplace({from, to, back});
  Transfer& transfer = entry->second;
  if (!fresh) return transfer;
  transfer.latency.resize(graph_.data());
  for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      const GpuId a = gpu(replica, from, member), b = gpu(replica, to, member);
      counter_.add(a, b);
      transfer.latency[replica] = std::max(transfer.latency[replica], cluster_.latency(a, b));
    }
  }
  transfer.flow = add(counter_.take());
  return transfer;
}

std::uint32_t PlanBase::transfer(std::uint32_t from, std::uint32_t to, bool back) {
  return between(from, to, back).flow;
}

Seconds PlanBase::latency(std::uint32_t from, std::uint32_t to, bool back,
                          const std::vector<std::uint32_t>& replicas) {
  const Transfer& transfer = between(from, to, back);
  Seconds longest;
  for (const std::uint32_t replica : replicas) {
    longest = std::max(longest, transfer.latency[replica]);
  }
  return longest;
}

bool PlanBase::of_all(Communicator which) const {
  return graph_.communicator_size(which) == graph_.data() * graph_.context();
}

const std::vector<GpuGroup>& PlanBase::groups(std::uint32_t stage, Communicator which) {
  std::vector<GpuGroup>& groups = groups_[{stage, which}];
  if (!groups.empty()) return groups;
  std::vector<bool> done(graph_.members());
  for (std::uint32_t member = 0; member < graph_.members(); ++member) {
    if (done[member]) continue;
    GpuGroup& gpus = groups.emplace_back();
    for (const RankId peer : graph_.communicator(which, graph_.rank(0, stage, member))) {
      const StepGraph::Position at = graph_.position(peer);
      if (at.replica == 0) done[at.member] = true;
      gpus.push_back(placement_[peer.value]);
    }
  }
  return groups;
}

const std::vector<PlanBase::Phase>& PlanBase::collective(std::uint32_t stage, Communicator which,
                                                         CollectiveKind kind,
                                                         CollectiveAlgorithm algorithm) {
  const auto [entry, fresh] = collectives_.try_emplace({{stage, which}, kind, algorithm});
  std::vector<Phase>& phases = entry->second;
  if (!fresh) return phases;
  CollectiveSchedule schedule =
      collective_schedule(cluster_, kind, algorithm, groups(stage, which));
  for (CollectivePhase& phase : schedule.phases) {
    phases.push_back({add(std::move(phase.links)), phase.share, phase.latency});
  }
  return phases;
}

CollectiveAlgorithm PlanBase::fastest(std::uint32_t stage, Communicator which,
                                      CollectiveKind kind, Bytes size) {
  const auto [entry, fresh] = fastest_.try_emplace({{stage, which}, kind, size.value});
  if (fresh) {
    entry->second = choose_algorithm(cluster_, profile_, kind, groups(stage, which), size);
  }
  return entry->second;
}

const KnownFlows& PlanBase::known(const std::vector<std::uint32_t>& flows) {
  const auto found = known_.find(flows);
  if (found != known_.end()) return found->second;
  if (known_.size() >= kMostKnown) known_.clear();
  std::vector<const std::vector<LinkLoad>*> loads;
  for (const std::uint32_t flow : flows) loads.push_back(flows_[flow].get());
  const auto bandwidth = [this](LinkId link) { return link_rate(cluster_, profile_, link); };
  return known_.emplace(flows, KnownFlows(std::move(loads), cluster_.links(), bandwidth))
      .first->second;
}

}  // namespace orrery
