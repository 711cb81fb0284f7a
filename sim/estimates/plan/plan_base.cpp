#include "sim/estimates/plan/plan_base.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/error.hpp"
#include "sim/estimates/collectives/collective_groups.hpp"

namespace orrery::estimates {
namespace {

/// A policy that tries many tables of collectives creates many entries; old ones are rarely reused.
constexpr std::size_t kMostKnown = 8;

/// Returns by how much `more` exceeds `less` on each link; negative where `less` is larger.
std::vector<KnownFlows::Change> difference(const std::vector<LinkLoad>& more,
                                           const std::vector<LinkLoad>& less) {
  std::vector<KnownFlows::Change> changes;
  auto minus = less.begin();
  for (const LinkLoad& plus : more) {
    for (; minus != less.end() && minus->link < plus.link; ++minus) {
      changes.push_back({minus->link.value, -static_cast<std::int32_t>(minus->flows)});
    }
    std::int32_t flows = static_cast<std::int32_t>(plus.flows);
    if (minus != less.end() && minus->link == plus.link) {
      flows -= static_cast<std::int32_t>((minus++)->flows);
    }
    if (flows != 0) changes.push_back({plus.link.value, flows});
  }
  for (; minus != less.end(); ++minus) {
    changes.push_back({minus->link.value, -static_cast<std::int32_t>(minus->flows)});
  }
  return changes;
}

/// Appends the edges that a ring loses with its members at the places `gone` (ascending) to `cut`,
/// and the edges that close the gaps to `joined`.
void cut_out(const GpuGroup& ring, const std::vector<std::uint32_t>& gone,
             std::vector<std::pair<GpuId, GpuId>>& cut,
             std::vector<std::pair<GpuId, GpuId>>& joined) {
  const auto size = static_cast<std::uint32_t>(ring.size());
  const auto is_gone = [&gone](std::uint32_t place) {
    return std::binary_search(gone.begin(), gone.end(), place);
  };
  for (const std::uint32_t place : gone) {
    const std::uint32_t before = (place + size - 1) % size;
    std::uint32_t after = (place + 1) % size;
    cut.emplace_back(ring[place], ring[after]);
    if (is_gone(before)) continue;
    cut.emplace_back(ring[before], ring[place]);
    while (is_gone(after)) after = (after + 1) % size;
    joined.emplace_back(ring[before], ring[after]);
  }
}

}  // namespace

CollectiveKind kind_of(OpCollective collective) {
  switch (collective) {
    case OpCollective::all_reduce: return CollectiveKind::all_reduce;
    case OpCollective::reduce_scatter: return CollectiveKind::reduce_scatter;
    case OpCollective::all_gather: return CollectiveKind::all_gather;
    case OpCollective::none: break;
  }
  throw Error(ErrorKind::internal, "a collective operation names its kind");
}

std::uint8_t crossing(const Cluster& cluster, GpuId from, GpuId to) {
  if (cluster.domain_of(from) == cluster.domain_of(to)) return 0;
  const NodeId a = cluster.node_of(from), b = cluster.node_of(to);
  const bool same_rail = cluster.rail_of(from) == cluster.rail_of(to);
  const bool same_unit = cluster.unit_of(a) == cluster.unit_of(b);
  return static_cast<std::uint8_t>(1 + (same_rail ? 0 : 1) + (same_unit ? 0 : 2));
}

std::uint32_t stage_borders(const StepGraph& graph) {
  const bool around = graph.chunks() > 1 && graph.pipeline() > 1;
  return graph.pipeline() - (around ? 0 : 1);
}

std::vector<std::uint32_t> replica_shapes(const Cluster& cluster, const StepGraph& graph,
                                          const std::vector<GpuId>& placement) {
  const std::uint32_t borders = stage_borders(graph);
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
                   const std::vector<GpuId>& placement, Whole whole)
    : cluster_(cluster),
      graph_(graph),
      profile_(profile),
      placement_(placement),
      whole_(std::move(whole)),
      own_counter_(whole_.base == nullptr ? std::make_unique<FlowCounter>(cluster) : nullptr),
      counter_(own_counter_ ? *own_counter_ : whole_.base->counter()) {}

const std::vector<std::uint32_t>& PlanBase::shapes() {
  if (!shapes_.empty()) return shapes_;
  if (whole_.base == nullptr) return shapes_ = replica_shapes(cluster_, graph_, placement_);
  const std::vector<std::uint32_t>& of_whole = whole_.base->shapes();
  for (const std::uint32_t replica : whole_.kept) shapes_.push_back(of_whole[replica]);
  return shapes_;
}

void PlanBase::append_transfer_links(std::uint32_t replica, std::vector<LinkId>& out) const {
  for (std::uint32_t stage = 0; stage < stage_borders(graph_); ++stage) {
    const std::uint32_t next = (stage + 1) % graph_.pipeline();
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      const GpuId a = gpu(replica, stage, member), b = gpu(replica, next, member);
      cluster_.route(a, b, out);
      cluster_.route(b, a, out);
    }
  }
  std::erase_if(out, [this](LinkId link) { return cluster_.link(link).kind >= LinkKind::leaf_up; });
}

const std::vector<std::uint32_t>& PlanBase::traffic_shapes(
    const std::vector<std::uint32_t>& flows) {
  const auto found = traffic_shapes_.find(flows);
  if (found != traffic_shapes_.end()) return found->second;
  if (traffic_shapes_.size() >= kMostKnown) traffic_shapes_.clear();
  std::vector<std::array<std::uint32_t, 3>> loads;  // link, flow, and how often they meet
  for (const std::uint32_t flow : flows) {
    for (const LinkLoad& load : links(flow)) loads.push_back({load.link.value, flow, load.flows});
  }
  std::sort(loads.begin(), loads.end());
  std::map<std::vector<std::uint32_t>, std::uint32_t> seen;
  std::vector<std::uint32_t> shapes(graph_.data());
  std::vector<LinkId> crossed;
  std::vector<std::uint32_t> met;
  for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
    crossed.clear(), met.clear();
    append_transfer_links(replica, crossed);
    for (std::size_t i = 0; i < crossed.size(); ++i) {
      const std::array<std::uint32_t, 3> first{crossed[i].value, 0, 0};
      for (auto load = std::lower_bound(loads.begin(), loads.end(), first);
           load != loads.end() && (*load)[0] == crossed[i].value; ++load) {
        met.insert(met.end(), {static_cast<std::uint32_t>(i), (*load)[1], (*load)[2]});
      }
    }
    const auto fresh = static_cast<std::uint32_t>(seen.size());
    shapes[replica] = seen.emplace(met, fresh).first->second;
  }
  return traffic_shapes_[flows] = std::move(shapes);
}

const std::vector<std::uint32_t>& PlanBase::lost_replicas() {
  if (lost_) return *lost_;
  lost_.emplace();
  auto kept = whole_.kept.begin();
  for (std::uint32_t replica = 0; replica < whole_.base->graph_.data(); ++replica) {
    if (kept != whole_.kept.end() && *kept == replica) {
      ++kept;
    } else {
      lost_->push_back(replica);
    }
  }
  return *lost_;
}

// ---- flows --------------------------------------------------------------------------------------

std::uint32_t PlanBase::add(std::vector<LinkLoad> links) {
  flows_.push_back(std::make_unique<Flow>(Flow{std::move(links), {}, {}}));
  return static_cast<std::uint32_t>(flows_.size() - 1);
}

std::uint32_t PlanBase::add(std::uint32_t of_whole, Changes changes) {
  flows_.push_back(std::make_unique<Flow>(Flow{{}, of_whole, std::move(changes)}));
  return static_cast<std::uint32_t>(flows_.size() - 1);
}

const std::vector<LinkLoad>& PlanBase::links(std::uint32_t number) {
  Flow& flow = *flows_[number];
  if (flow.links) return *flow.links;
  for (const LinkLoad& load : whole_.base->links(*flow.of_whole)) {
    counter_.add_link(load.link, load.flows);
  }
  for (const KnownFlows::Change& change : flow.changes) {
    counter_.add_link({change.link}, static_cast<std::uint32_t>(change.flows));
  }
  flow.links = counter_.drain_loads();
  std::erase_if(*flow.links, [](const LinkLoad& load) { return load.flows == 0; });
  return *flow.links;
}

PlanBase::Known PlanBase::known(const std::vector<std::uint32_t>& flows) {
  std::vector<std::uint32_t> of_whole;
  std::vector<const Changes*> now;
  for (const std::uint32_t number : flows) {
    const Flow& flow = *flows_[number];
    if (!flow.of_whole) return {all_known(flows), {}};
    of_whole.push_back(*flow.of_whole);
    now.push_back(&flow.changes);
  }
  if (flows.empty()) return {all_known(flows), {}};
  return {whole_.base->all_known(of_whole), std::move(now)};
}

const KnownFlows& PlanBase::all_known(const std::vector<std::uint32_t>& flows) {
  const auto found = known_.find(flows);
  if (found != known_.end()) return found->second;
  if (known_.size() >= kMostKnown) known_.clear();
  std::vector<const std::vector<LinkLoad>*> loads;
  for (const std::uint32_t flow : flows) loads.push_back(&links(flow));
  const auto bandwidth = [this](LinkId link) { return link_rate(cluster_, profile_, link); };
  return known_.emplace(flows, KnownFlows(std::move(loads), cluster_.links(), bandwidth))
      .first->second;
}

// ---- transfers between stages ---------------------------------------------------------------

const PlanBase::Transfer& PlanBase::between(std::uint32_t from, std::uint32_t to, bool back) {
  const auto [entry, fresh] = transfers_.try_emplace({from, to, back});
  Transfer& transfer = entry->second;
  if (!fresh) return transfer;
  if (whole_.base != nullptr) {
    transfer.flow = transfer_of_fewer(from, to, back);
    return transfer;
  }
  transfer.latency.resize(graph_.data());
  for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      const GpuId a = gpu(replica, from, member), b = gpu(replica, to, member);
      counter_.add_flows(a, b);
      transfer.latency[replica] = std::max(transfer.latency[replica], cluster_.latency(a, b));
    }
  }
  transfer.flow = add(counter_.drain_loads());
  return transfer;
}

std::uint32_t PlanBase::transfer_of_fewer(std::uint32_t from, std::uint32_t to, bool back) {
  PlanBase& whole = *whole_.base;
  for (const std::uint32_t replica : lost_replicas()) {
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      counter_.add_flows(whole.gpu(replica, from, member), whole.gpu(replica, to, member));
    }
  }
  return add(whole.transfer(from, to, back), difference({}, counter_.drain_loads()));
}

std::uint32_t PlanBase::transfer(std::uint32_t from, std::uint32_t to, bool back) {
  return between(from, to, back).flow;
}

Seconds PlanBase::latency(std::uint32_t from, std::uint32_t to, bool back,
                          const std::vector<std::uint32_t>& replicas) {
  const bool fewer = whole_.base != nullptr;
  const Transfer& transfer = (fewer ? *whole_.base : *this).between(from, to, back);
  Seconds longest;
  for (const std::uint32_t replica : replicas) {
    longest = std::max(longest, transfer.latency[fewer ? whole_.kept[replica] : replica]);
  }
  return longest;
}

// ---- collectives --------------------------------------------------------------------------------

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

std::vector<GpuGroup> PlanBase::groups_of_all(std::uint32_t stage, Communicator which) const {
  std::vector<GpuGroup> groups;
  std::vector<bool> done(std::size_t{graph_.data()} * graph_.members());
  for (std::uint32_t place = 0; place < done.size(); ++place) {
    if (done[place]) continue;
    GpuGroup& gpus = groups.emplace_back();
    const RankId first = graph_.rank(place / graph_.members(), stage, place % graph_.members());
    for (const RankId peer : graph_.communicator(which, first)) {
      const StepGraph::Position at = graph_.position(peer);
      done[std::size_t{at.replica} * graph_.members() + at.member] = true;
      gpus.push_back(placement_[peer.value]);
    }
  }
  return groups;
}

std::uint32_t PlanBase::domains(std::uint32_t stage, Communicator which) {
  const auto [entry, fresh] = domains_.try_emplace({stage, which});
  if (!fresh) return entry->second;
  if (whole_.base != nullptr && whole_.base->rings(stage, which).apart) {
    return entry->second = graph_.communicator_size(which);
  }
  const std::vector<GpuGroup> all = by_domain(cluster_, groups(stage, which).front());
  return entry->second = static_cast<std::uint32_t>(all.size());
}

const PlanBase::Rings& PlanBase::rings(std::uint32_t stage, Communicator which) {
  const auto [entry, fresh] = rings_.try_emplace({stage, which});
  Rings& rings = entry->second;
  if (!fresh) return rings;
  for (const GpuGroup& group : groups(stage, which)) {
    rings.apart = rings.apart && by_domain(cluster_, group).size() == group.size();
    RingEdges& edges = rings.edges.emplace_back();
    for (std::size_t i = 0; i < group.size(); ++i) {
      edges.add(message_way(cluster_, group[i], group[(i + 1) % group.size()]));
    }
  }
  rings.spots.resize(std::size_t{graph_.data()} * graph_.members());
  std::vector<bool> done(graph_.members());
  std::uint32_t number = 0;
  for (std::uint32_t member = 0; member < graph_.members(); ++member) {
    if (done[member]) continue;
    std::uint32_t place = 0;
    for (const RankId peer : graph_.communicator(which, graph_.rank(0, stage, member))) {
      const StepGraph::Position at = graph_.position(peer);
      if (at.replica == 0) done[at.member] = true;
      rings.spots[at.replica * graph_.members() + at.member] = {number, place++};
    }
    ++number;
  }
  return rings;
}

bool PlanBase::rings_of_fewer(std::uint32_t stage, Communicator which, CollectiveKind kind,
                              std::vector<Phase>& phases) {
  PlanBase& whole = *whole_.base;
  const Rings& rings = whole.rings(stage, which);
  const std::uint32_t members = graph_.communicator_size(which);
  if (!rings.apart || members < 2) return false;
  std::vector<std::vector<std::uint32_t>> gone(rings.edges.size());
  for (const std::uint32_t replica : lost_replicas()) {
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      const auto& [ring, place] = rings.spots[replica * graph_.members() + member];
      gone[ring].push_back(place);
    }
  }
  const std::vector<GpuGroup>& groups = whole.groups(stage, which);
  const double rounds = ring_passes(kind) * (members - 1);
  double latency = 0;
  std::vector<std::pair<GpuId, GpuId>> cut, joined;
  for (std::size_t ring = 0; ring < groups.size(); ++ring) {
    std::sort(gone[ring].begin(), gone[ring].end());
    RingEdges edges = rings.edges[ring];
    const std::size_t cut_before = cut.size(), joined_before = joined.size();
    cut_out(groups[ring], gone[ring], cut, joined);
    for (const auto& [from, to] : std::span(cut).subspan(cut_before)) {
      edges.add(message_way(cluster_, from, to), -1);
    }
    for (const auto& [from, to] : std::span(joined).subspan(joined_before)) {
      edges.add(message_way(cluster_, from, to));
    }
    latency = std::max(latency, edges.mean().latency * rounds);
  }
  const Phase& phase = whole.collective(stage, which, kind, CollectiveAlgorithm::ring).front();
  phases.push_back(
      {add(phase.flow, difference(links_of(joined), links_of(cut))), rounds / members, {latency}});
  return true;
}

std::vector<LinkLoad> PlanBase::links_of(const std::vector<std::pair<GpuId, GpuId>>& edges) {
  for (const auto& [from, to] : edges) counter_.add_flows(from, to);
  return counter_.drain_loads();
}

const std::vector<PlanBase::Phase>& PlanBase::collective(std::uint32_t stage, Communicator which,
                                                         CollectiveKind kind,
                                                         CollectiveAlgorithm algorithm) {
  const auto [entry, fresh] = collectives_.try_emplace({{stage, which}, kind, algorithm});
  std::vector<Phase>& phases = entry->second;
  if (!fresh) return phases;
  if (whole_.base != nullptr && algorithm == CollectiveAlgorithm::ring &&
      rings_of_fewer(stage, which, kind, phases)) {
    return phases;
  }
  CollectiveSchedule schedule =
      collective_schedule(cluster_, kind, algorithm, groups(stage, which));
  for (CollectivePhase& phase : schedule.phases) {
    phases.push_back({add(std::move(phase.links)), phase.share, phase.latency});
  }
  return phases;
}

double PlanBase::seconds_per_byte(std::uint32_t stage, Communicator which, CollectiveKind kind,
                                  CollectiveAlgorithm algorithm) {
  const auto slowest = [this](const std::vector<LinkLoad>& loads) {
    double most = 0;
    for (const LinkLoad& load : loads) {
      most = std::max(most, load.flows / link_rate(cluster_, profile_, load.link));
    }
    return most;
  };
  double sum = 0;
  if (of_all(which)) {
    for (const Phase& phase : collective(stage, which, kind, algorithm)) {
      sum += phase.share * slowest(links(phase.flow));
    }
    return sum;
  }
  const auto schedule =
      collective_schedule(cluster_, kind, algorithm, groups_of_all(stage, which));
  for (const CollectivePhase& phase : schedule.phases) sum += phase.share * slowest(phase.links);
  return sum;
}

CollectiveAlgorithm PlanBase::fastest(std::uint32_t stage, Communicator which, CollectiveKind kind,
                                      Bytes size) {
  const auto [entry, fresh] = fastest_.try_emplace({{stage, which}, kind, size.value});
  if (fresh) {
    entry->second = choose_algorithm(cluster_, profile_, kind, groups(stage, which), size);
  }
  return entry->second;
}

}  // namespace orrery::estimates
