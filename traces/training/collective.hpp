// What collectives there are and how they can be carried out: the names that step graphs, policies
// and the simulator share. Plain values; thread-safe. The numbers are the wire's (trace.proto):
// append only.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

namespace orrery {

enum class CollectiveKind : std::uint8_t {
  all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send_receive
};

/// automatic: the cheapest by its closed form. nvls: the switches add up and multiply.
enum class CollectiveAlgorithm : std::uint8_t {
  automatic, ring, tree, hierarchical, direct, nvls, halving_doubling
};

/// One line of a table: what calls of a kind are carried out with, from so many bytes, ranks and
/// nodes (NVLink domains) on.
struct CollectiveRule {
  CollectiveKind kind{};
  double from_bytes = 0;
  std::uint32_t from_ranks = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  std::uint32_t from_nodes = 0;
  friend auto operator<=>(const CollectiveRule&, const CollectiveRule&) = default;
};
using CollectiveTable = std::vector<CollectiveRule>;

/// What the table says of a call: of the rules that it reaches, the one with the most nodes, then
/// ranks, then bytes; of equals the later one. `otherwise` where no rule is reached.
inline CollectiveAlgorithm look_up(const CollectiveTable& table, CollectiveKind kind, double bytes,
                                   std::uint32_t ranks, std::uint32_t nodes,
                                   CollectiveAlgorithm otherwise) {
  const CollectiveRule* best = nullptr;
  const auto reach = [](const CollectiveRule& of) {
    return std::tuple(of.from_nodes, of.from_ranks, of.from_bytes);
  };
  for (const CollectiveRule& each : table) {
    const bool reached = each.kind == kind && bytes >= each.from_bytes &&
                         ranks >= each.from_ranks && nodes >= each.from_nodes;
    if (reached && (best == nullptr || reach(each) >= reach(*best))) best = &each;
  }
  return best == nullptr ? otherwise : best->algorithm;
}

}  // namespace orrery
