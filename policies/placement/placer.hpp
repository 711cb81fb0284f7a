// Placement of waiting jobs: the placement half of a job scheduler. A queue policy calls its placer
// job by job within one pass, over a working copy of the free GPUs. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "policies/seam/world.hpp"

namespace orrery {

/// Free GPUs during one pass: those of the cluster's state minus the GPUs given away in the pass.
/// Finds nodes by their number of free GPUs in O(nodes / 64) and the free GPUs of a node in O(1); a
/// refresh reads only the nodes that have changed.
class FreeGpus {
 public:
  /// Starts without free GPUs; call refresh_from() first.
  explicit FreeGpus(const Cluster& cluster);

  /// Begins a pass with the free GPUs of `state`, which must outlive the pass and not change during
  /// it; undoes the changes of the pass before.
  void refresh_from(const ClusterState& state);
  /// Returns the number of free GPUs.
  std::uint32_t total() const { return total_; }
  /// Returns the number of free GPUs of a node, which must be below nodes() (not checked).
  std::uint32_t in_node(std::uint32_t node) const { return per_node_[node]; }
  /// Returns the number of nodes.
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(per_node_.size()); }
  /// Returns the number of GPUs of a node, free or not.
  std::uint32_t gpus_per_node() const { return gpus_per_node_; }
  /// Returns the number of nodes in a scalable unit.
  std::uint32_t nodes_per_unit() const { return nodes_per_unit_; }
  /// Returns the number of nodes with exactly `free` free GPUs; `free` is at most gpus_per_node().
  std::uint32_t nodes_with(std::uint32_t free) const { return with_[free].count; }
  /// Returns the first node, from `from` on, with exactly `free` free GPUs, which is at most
  /// gpus_per_node(); nodes() if none has.
  std::uint32_t first_with(std::uint32_t free, std::uint32_t from = 0) const;
  /// Returns the first node, from `from` on, with a free GPU; nodes() if none has.
  std::uint32_t first_not_full(std::uint32_t from = 0) const;
  /// Takes the `count` free GPUs of a node with the lowest numbers and appends them to `out`.
  /// Throws an internal Error, and changes nothing, if the node has fewer. Call after
  /// refresh_from().
  void take_gpus(std::uint32_t node, std::uint32_t count, GpuRuns& out);
  /// Adds the GPUs of a job that is about to leave them to the free GPUs, except GPUs that are not
  /// healthy. The GPUs must not be free already (not checked). Call after refresh_from().
  void return_gpus(const GpuRuns& gpus);

 private:
  /// Set of nodes.
  struct Nodes {
    std::uint32_t count = 0;
    std::vector<std::uint64_t> bits;

    void add(std::uint32_t node);
    void remove_node(std::uint32_t node);
    /// Returns the first node from `from` on; `none` if no such node is in the set.
    std::uint32_t first(std::uint32_t from, std::uint32_t none) const;
  };
  void update_node(std::uint32_t node);
  void set_free_count(std::uint32_t node, std::uint32_t free);
  /// Returns the bits of the node's free GPUs.
  std::uint64_t* bits_of(std::uint32_t node);

  const ClusterState* state_ = nullptr;
  std::uint32_t gpus_per_node_, nodes_per_unit_, words_, total_ = 0;
  std::vector<std::uint64_t> free_bits_;           ///< `words_` for each node, one bit for each GPU
  /// by node: true if its bits are up to date; otherwise they are read when needed
  std::vector<std::uint8_t> known_;
  std::vector<std::uint32_t> per_node_;
  std::vector<Nodes> with_;                        ///< indexed by number of free GPUs
  Nodes not_full_;
  std::uint64_t followed_ = 0;  ///< number of the state's changes that have been followed
  std::vector<std::uint32_t> ours_;                ///< nodes that the pass has changed
};

/// Rules by which jobs get free GPUs, as policies' parameters name them.
enum class PlacementRule : std::uint8_t { count, consolidated, topology, per_node };
constexpr std::array<std::string_view, 4> names_of(PlacementRule) {
  return {"count", "consolidated", "topology", "per-node"};
}

/// Rule by which a job gets free GPUs.
class Placer {
 public:
  virtual ~Placer() = default;
  /// Returns the name in scenarios.
  virtual std::string_view name() const = 0;
  /// Returns JobSpec::gpus GPUs for the job, in the order of its ranks, and removes them from
  /// `free`; nothing, and `free` unchanged, if the job does not fit. Call after
  /// FreeGpus::refresh_from().
  virtual std::optional<GpuRuns> place_job(const JobSpec& job, FreeGpus& free) const = 0;
};

/// Returns the names of all placers.
std::vector<std::string> placer_names();

/// Returns a new placer. Throws bad_input with the nearest name for an unknown name.
std::unique_ptr<Placer> make_placer(std::string_view name);

}  // namespace orrery
