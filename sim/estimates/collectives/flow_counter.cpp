#include "sim/estimates/collectives/flow_counter.hpp"

#include <map>
#include <utility>

#include "core/tables/radix_sort.hpp"

namespace orrery::estimates {
namespace {

/// Member counts of a group by location in the cluster.
struct Census {
  Census(const Cluster& cluster, const GpuGroup& members);

  using Counts = std::vector<std::uint32_t>;
  const std::uint32_t locals, rails;
  std::uint32_t all = 0;
  Counts local;                                          ///< counts by GPU index in the node
  std::map<std::uint32_t, Counts> of_node;               ///< node -> counts by rail
  std::map<std::uint32_t, Counts> of_domain;  ///< domain -> counts by GPU index in the node
  std::map<std::uint32_t, std::uint32_t> unit;           ///< members by scalable unit

  std::uint32_t in_domain(std::uint32_t domain) const { return sum(of_domain.at(domain)); }
  std::uint32_t in_node(std::uint32_t node) const { return sum(of_node.at(node)); }
  /// Returns the members outside of a domain, by GPU index in the node or by rail.
  std::uint32_t outside_at(std::uint32_t domain, std::uint32_t place) const {
    return local[place] - of_domain.at(domain)[place];
  }
  std::uint32_t outside_on(std::uint32_t domain, std::uint32_t of_rail) const {
    std::uint32_t count = 0;
    for (std::uint32_t place = 0; place < locals; ++place) {
      if (place * rails / locals == of_rail) count += outside_at(domain, place);
    }
    return count;
  }
  static std::uint32_t sum(const Counts& counts) {
    std::uint32_t total = 0;
    for (const std::uint32_t count : counts) total += count;
    return total;
  }
};

Census::Census(const Cluster& cluster, const GpuGroup& members)
    : locals(cluster.shape().gpus_per_node), rails(cluster.rails()), local(locals) {
  for (const GpuId gpu : members) {
    const NodeId node = cluster.node_of(gpu);
    const std::uint32_t place = gpu.value % locals;
    ++all;
    ++local[place];
    ++unit[cluster.unit_of(node)];
    of_node.try_emplace(node.value, rails).first->second[cluster.rail_of(gpu)] += 1;
    of_domain.try_emplace(cluster.domain_of(gpu), locals).first->second[place] += 1;
  }
}

}  // namespace

FlowCounter::FlowCounter(const Cluster& cluster) : cluster_(cluster), flows_(cluster.links()) {}

void FlowCounter::add_flows(GpuId from, GpuId to, std::uint32_t flows) {
  route_.clear();
  cluster_.route(from, to, route_);
  for (const LinkId link : route_) add_link(link, flows);
}

void FlowCounter::add_link(LinkId link, std::uint32_t flows) {
  if (flows == 0) return;
  if (flows_[link.value] == 0) touched_.push_back(link.value);
  flows_[link.value] += flows;
}

std::vector<LinkLoad> FlowCounter::drain_loads() {
  sort_by_number(touched_, [](std::uint32_t link) { return link; });
  return drain_unordered();
}

std::vector<LinkLoad> FlowCounter::drain_unordered() {
  std::vector<LinkLoad> loads;
  loads.reserve(touched_.size());
  for (const std::uint32_t link : touched_) {
    loads.push_back({{link}, std::exchange(flows_[link], 0)});
  }
  touched_.clear();
  return loads;
}

void FlowCounter::add_each_pair(const GpuGroup& members) {
  for (const GpuId from : members) {
    for (const GpuId to : members) add_flows(from, to);
  }
}

void FlowCounter::add_all_pairs(const GpuGroup& members) {
  const Cluster::Shape& shape = cluster_.shape();
  const bool straddles = shape.fabric == FabricKind::fat_tree &&
                         shape.nodes_per_unit % shape.nodes_per_domain != 0;
  const bool hashed = shape.transport == Transport::ecmp;
  if (cluster_.is_direct() || straddles || hashed) return add_each_pair(members);
  const Census census(cluster_, members);
  const bool flat = shape.fabric == FabricKind::flat;
  for (const GpuId gpu : members) {
    const NodeId node = cluster_.node_of(gpu);
    const std::uint32_t domain = cluster_.domain_of(gpu), rail = cluster_.rail_of(gpu);
    const std::uint32_t inside = census.in_domain(domain), outside = census.all - inside;
    const std::uint32_t same_rail = flat ? outside : census.outside_on(domain, rail);
    add_link(cluster_.nvlink_out(gpu), inside - 1 + outside - same_rail);
    add_link(cluster_.nvlink_in(gpu), inside - 1);
    add_link(cluster_.nic_in(node, rail), outside);
    if (flat) add_link(cluster_.nic_out(node, rail), outside);
    for (const auto& [unit, count] : census.unit) {
      const std::uint32_t own = cluster_.unit_of(node);
      if (unit == own) continue;
      const std::uint32_t spine = node.value % shape.spines;
      add_link(cluster_.leaf_up(unit, rail, spine), count);
      add_link(cluster_.leaf_down(own, rail, spine), count);
      const std::uint32_t from = cluster_.pod_of(unit), to = cluster_.pod_of(own);
      if (from == to) continue;
      const std::uint32_t core = cluster_.core_of(node);
      add_link(cluster_.core_up(from, rail, spine, core), count);
      add_link(cluster_.core_down(to, rail, spine, core), count);
    }
  }
  if (flat) return;
  for (const auto& [node, by_rail] : census.of_node) {
    const std::uint32_t first = node * shape.gpus_per_node;
    const std::uint32_t domain = cluster_.domain_of({first}), here = census.in_node(node);
    for (std::uint32_t rail = 0; rail < census.rails; ++rail) {
      add_link(cluster_.nic_out({node}, rail), here * census.outside_on(domain, rail));
    }
    // A flow to another rail first goes over NVLink to the GPU of this node with the destination's
    // index: these GPUs relay.
    for (std::uint32_t place = 0; place < census.locals; ++place) {
      const std::uint32_t others = here - by_rail[cluster_.rail_of({first + place})];
      add_link(cluster_.nvlink_in({first + place}), others * census.outside_at(domain, place));
    }
  }
}

}  // namespace orrery::estimates
