#include "sim/training/storage_rates.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace orrery::sim {
namespace {

/// Equal flows on one link: their number, and the rate that each wants at most.
struct EqualFlows {
  double number;
  double wanted;
};

/// Returns the rate that no flow of a link exceeds if the flows share it max-min fairly; unlimited
/// if all flows get the rates that they want.
double fair_level(double bandwidth, std::vector<EqualFlows> flows) {
  std::sort(flows.begin(), flows.end(), [](const EqualFlows& a, const EqualFlows& b) {
    return a.wanted < b.wanted;
  });
  double number = 0;
  for (const EqualFlows& each : flows) number += each.number;
  for (const EqualFlows& each : flows) {
    if (each.wanted * number >= bandwidth) return bandwidth / number;
    bandwidth -= each.wanted * each.number;
    number -= each.number;
  }
  return kUnlimited;
}

/// Returns the rates that one node's link leaves to its flows.
StorageRates rates_of_node(double bandwidth, const StorageNodes& node, StorageRates wanted) {
  std::vector<EqualFlows> flows;
  if (node.writers > 0 && wanted.write > 0) flows.push_back({1.0 * node.writers, wanted.write});
  if (node.readers > 0 && wanted.read > 0) flows.push_back({1.0 * node.readers, wanted.read});
  const double level = fair_level(bandwidth, std::move(flows));
  return {node.writers > 0 ? std::min(wanted.write, level) : 0,
          node.readers > 0 ? std::min(wanted.read, level) : 0};
}

}  // namespace

std::vector<StorageNodes> storage_nodes(const Cluster& cluster, const StepGraph& graph,
                                        const std::vector<GpuId>& placement) {
  std::map<NodeId, std::pair<std::uint32_t, std::uint32_t>> ranks;
  for (std::uint32_t rank = 0; rank < placement.size(); ++rank) {
    auto& [writers, readers] = ranks[cluster.node_of(placement[rank])];
    ++writers;
    if (graph.position({rank}).stage == 0) ++readers;
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> alike;
  for (const auto& [node, numbers] : ranks) ++alike[numbers];
  std::vector<StorageNodes> nodes;
  for (const auto& [numbers, count] : alike) {
    nodes.push_back({.nodes = count, .writers = numbers.first, .readers = numbers.second});
  }
  return nodes;
}

StorageRates storage_rates(const SharedStorage& storage, double share,
                           const std::vector<StorageNodes>& nodes, StorageRates wanted) {
  const double link = storage.has_node_bandwidth() ? storage.node_bandwidth() : kUnlimited;
  std::vector<EqualFlows> all;
  StorageRates slowest{kUnlimited, kUnlimited};
  for (const StorageNodes& each : nodes) {
    const StorageRates rates = rates_of_node(link, each, wanted);
    if (rates.write > 0) {
      all.push_back({1.0 * each.nodes * each.writers, rates.write});
      slowest.write = std::min(slowest.write, rates.write);
    }
    if (rates.read > 0) {
      all.push_back({1.0 * each.nodes * each.readers, rates.read});
      slowest.read = std::min(slowest.read, rates.read);
    }
  }
  const double level = fair_level(storage.bandwidth() * share, std::move(all));
  const auto limited = [level](double rate) {
    return std::isinf(rate) && std::isinf(level) ? 0 : std::min(rate, level);
  };
  return {limited(slowest.write), limited(slowest.read)};
}

}  // namespace orrery::sim
