// State of the cluster without its jobs: owners of GPUs, free GPUs, and parts that differ from
// their data sheet. Only World changes the state; policies read it. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "policies/seam/event.hpp"

namespace orrery {

/// Owners, free GPUs and degraded parts of a cluster. A GPU is free if it has no owner and neither
/// the GPU nor its node is lost. Plain value. For example, GPU 5 is free in a cluster of 8 GPUs a
/// node if free_bits[0] has bit 5.
struct ClusterState {
  static constexpr JobId kNobody{~0u};  ///< owner of a GPU without a job

  std::vector<JobId> owner;  ///< indexed by GPU: job that has the GPU or is about to get it
  std::vector<std::uint32_t> free_per_node;  ///< indexed by node: healthy GPUs without an owner
  std::uint32_t free = 0;  ///< free GPUs of the whole cluster
  /// Bit mask of the free GPUs, `words_per_node` words of 64 GPUs for each node.
  std::vector<std::uint64_t> free_bits;
  std::uint32_t words_per_node = 1;
  std::map<Part, PartState> parts;  ///< parts that differ from their data sheet
  std::uint64_t version = 0;  ///< number of events so far, without ticks
  /// Ring buffer of the nodes whose number of free GPUs changed: change i is at index i modulo the
  /// size. A reader that remembers `changes` can update its own data without a scan of the cluster.
  /// Not saved with the rest of the world.
  std::array<std::uint32_t, 1024> changed_nodes{};
  std::uint64_t changes = 0;  ///< number of entries of `changed_nodes` written so far

  /// Returns true if neither the GPU nor `node`, the node of the GPU, is lost.
  bool is_healthy(GpuId gpu, NodeId node) const;
  /// Returns true if the removal of the GPU or of `node`, the node of the GPU, is announced.
  bool is_to_be_removed(GpuId gpu, NodeId node) const;
  /// Returns true if the part is lost.
  bool is_lost(Part part) const {
    const auto found = parts.find(part);
    return found != parts.end() && found->second.health == Health::lost;
  }
};

}  // namespace orrery
