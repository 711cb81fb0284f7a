// Kinds of collectives and their algorithms: the names that step graphs, policies and the simulator
// share. Plain values; thread-safe. The numbers are those of the wire format (trace.proto): append
// only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/schema/names.hpp"

namespace orrery {

enum class CollectiveKind : std::uint8_t {
  all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send_receive
};
constexpr std::array<std::string_view, 6> names_of(CollectiveKind) {
  return {"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send-receive"};
}

/// Algorithms. automatic: the cheapest by its closed form. nvls: the switches reduce and multicast.
enum class CollectiveAlgorithm : std::uint8_t {
  automatic, ring, tree, hierarchical, direct, nvls, halving_doubling
};
constexpr std::array<std::string_view, 7> names_of(CollectiveAlgorithm) {
  return {"automatic", "ring", "tree", "hierarchical", "direct", "nvls", "halving-doubling"};
}

/// Rule of a table: the algorithm for calls of a kind with at least so many bytes, ranks and nodes
/// (NVLink domains).
struct CollectiveRule {
  CollectiveKind kind{};
  double from_bytes = 0;
  std::uint32_t from_ranks = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  std::uint32_t from_nodes = 0;
  friend auto operator<=>(const CollectiveRule&, const CollectiveRule&) = default;
};
using CollectiveTable = std::vector<CollectiveRule>;

/// Returns the algorithm for a call: of the applicable rules the one with the most nodes, then
/// ranks, then bytes; of equal ones the last. `otherwise` if no rule applies. For example, with
/// rules from 0 bytes (tree) and from 1 MiB (ring) a 2 MiB call uses ring.
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
