// The part of the world that is not jobs: whose GPUs are, what is free, what is not as on the data
// sheet. Changed by World alone, read by policies; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "policies/seam/event.hpp"

namespace orrery {

struct ClusterState {
  static constexpr JobId kNobody{~0u};

  std::vector<JobId> owner;                  ///< by GPU: the job that has it or is to have it
  std::vector<std::uint32_t> free_per_node;  ///< GPUs that are well and nobody's
  std::uint32_t free = 0;
  /// The same GPUs, a bit each: `words_per_node` words a node.
  std::vector<std::uint64_t> free_bits;
  std::uint32_t words_per_node = 1;
  std::map<Part, PartState> parts;  ///< those that are not as on the data sheet
  std::uint64_t version = 0;        ///< grows with every change
  /// The nodes whose free GPUs have changed last, a ring buffer: change i stands at i modulo its
  /// size. For whoever follows; not kept with the rest of the world.
  std::array<std::uint32_t, 1024> changed_nodes{};
  std::uint64_t changes = 0;  ///< so far

  /// Neither it nor the node around it is lost.
  bool well(GpuId gpu, NodeId node) const;
  bool lost(Part part) const {
    const auto found = parts.find(part);
    return found != parts.end() && found->second.health == Health::lost;
  }
};

}  // namespace orrery
