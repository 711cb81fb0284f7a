// State of the cluster without its jobs: owners of GPUs, free GPUs, and parts that differ from
// their data sheet. World alone changes the state, policies read it, in one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "policies/seam/event.hpp"

namespace orrery {

/// Owners, free GPUs and degraded parts of a cluster. Plain value.
struct ClusterState {
  static constexpr JobId kNobody{~0u};

  std::vector<JobId> owner;  ///< indexed by GPU: job that has the GPU or is about to get it
  std::vector<std::uint32_t> free_per_node;  ///< indexed by node: healthy GPUs without an owner
  std::uint32_t free = 0;
  /// Bit mask of the free GPUs, `words_per_node` words for each node.
  std::vector<std::uint64_t> free_bits;
  std::uint32_t words_per_node = 1;
  std::map<Part, PartState> parts;  ///< parts that differ from their data sheet
  std::uint64_t version = 0;        ///< increases with every change
  /// Ring buffer of the nodes whose free GPUs changed last: change i is at index i modulo the size.
  /// For readers that follow changes; not saved with the rest of the world.
  std::array<std::uint32_t, 1024> changed_nodes{};
  std::uint64_t changes = 0;  ///< number of changes so far

  /// Returns true if neither the GPU nor its node is lost.
  bool is_healthy(GpuId gpu, NodeId node) const;
  /// Returns true if the part is lost.
  bool is_lost(Part part) const {
    const auto found = parts.find(part);
    return found != parts.end() && found->second.health == Health::lost;
  }
};

}  // namespace orrery
