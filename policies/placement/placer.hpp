// Where a waiting job goes: the placement half of a job scheduler. A queue policy asks its placer
// job by job within one pass, over a working copy of what is free. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/seam/world.hpp"

namespace orrery {

/// What is free during one pass: the cluster's state less what the pass has given away. Nodes are
/// found by how many GPUs they have free in O(nodes / 64), the free GPUs of a node in O(1);
/// refreshing looks at nodes that have changed since.
class FreeGpus {
 public:
  explicit FreeGpus(const Cluster& cluster);

  /// Begins a pass; `state` must outlive it.
  void refresh(const ClusterState& state);
  std::uint32_t total() const { return total_; }
  std::uint32_t in_node(std::uint32_t node) const { return per_node_[node]; }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(per_node_.size()); }
  std::uint32_t gpus_per_node() const { return gpus_per_node_; }
  std::uint32_t nodes_per_unit() const { return nodes_per_unit_; }
  /// Nodes with exactly so many free GPUs.
  std::uint32_t nodes_with(std::uint32_t free) const { return with_[free].count; }
  /// The first node, from `from` on, with exactly so many; nodes() if there is none.
  std::uint32_t first_with(std::uint32_t free, std::uint32_t from = 0) const;
  /// The first node, from `from` on, with any free GPU; nodes() if there is none.
  std::uint32_t first_not_full(std::uint32_t from = 0) const;
  /// Takes the `count` lowest free GPUs of a node and appends them; there must be as many.
  void take(std::uint32_t node, std::uint32_t count, GpuRuns& out);
  /// GPUs of a job that is about to leave them, as far as they are well.
  void give_back(const GpuRuns& gpus);

 private:
  /// A set of nodes.
  struct Nodes {
    std::uint32_t count = 0;
    std::vector<std::uint64_t> bits;

    void add(std::uint32_t node);
    void remove(std::uint32_t node);
    /// The first from `from` on; `none` if there is none.
    std::uint32_t first(std::uint32_t from, std::uint32_t none) const;
  };
  void follow(std::uint32_t node);
  void set(std::uint32_t node, std::uint32_t free);
  /// Of its free GPUs.
  std::uint64_t* bits_of(std::uint32_t node);

  const ClusterState* state_ = nullptr;
  std::uint32_t gpus_per_node_, nodes_per_unit_, words_, total_ = 0;
  std::vector<std::uint64_t> free_bits_;           ///< `words_` a node, a bit a GPU
  std::vector<std::uint8_t> known_;                ///< by node: its bits; else when they are needed
  std::vector<std::uint32_t> per_node_;
  std::vector<Nodes> with_;                        ///< by number of free GPUs
  Nodes not_full_;
  std::uint64_t followed_ = 0;                     ///< of the state's changes
  std::vector<std::uint32_t> ours_;                ///< nodes that the pass has changed
};

class Placer {
 public:
  virtual ~Placer() = default;
  virtual std::string_view name() const = 0;
  /// GPUs for the job, taken from `free`; nothing, and nothing taken, if it does not fit.
  virtual std::optional<GpuRuns> place(const JobSpec& job, FreeGpus& free) const = 0;
};

std::vector<std::string> placer_names();

/// Throws bad_input with the nearest name.
std::unique_ptr<Placer> make_placer(std::string_view name);

}  // namespace orrery
