// Placement of waiting jobs: the placement half of a job scheduler. A queue policy calls its placer
// job by job within one pass, over a working copy of the free GPUs. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/schema/names.hpp"
#include "policies/seam/world.hpp"

namespace orrery {

/// Free GPUs during one pass: those of the cluster's state minus the GPUs given away in the pass.
/// Finds nodes by their number of free GPUs in O(nodes / 64) and the free GPUs of a node in O(1); a
/// refresh reads only the nodes that have changed.
///
/// A GPU of a cluster of slices (Cluster::Shape::slices_per_gpu) is free if all of its slices are;
/// the lists of GPUs (GpuRuns) are lists of slices there. For example, if 3 of the 4 slices of a
/// GPU are free on a node of 2 GPUs whose other GPU is free, total() is 7 and in_node() is 1.
class FreeGpus {
 public:
  /// Starts without free GPUs; call refresh_from() first.
  explicit FreeGpus(const Cluster& cluster);
  /// Constructs the free GPUs of one kind (Cluster::gpu_kind()): nodes of other kinds have none.
  FreeGpus(const Cluster& cluster, const std::string& kind);

  /// Begins a pass with the free GPUs of `state`, which must outlive the pass and not change during
  /// it; undoes the changes of the pass before.
  void refresh_from(const ClusterState& state);
  /// Returns the number of free GPUs, in a cluster of slices of free slices, as JobSpec::gpus
  /// counts.
  std::uint32_t total() const { return whole_ * slices_ + in_parts_; }
  /// Returns the number of free GPUs, without GPUs of which only some slices are free.
  std::uint32_t whole_gpus() const { return whole_; }
  /// Returns the number of slices of a GPU; 1 in a cluster of GPUs.
  std::uint32_t slices_per_gpu() const { return slices_; }
  /// Returns the number of free GPUs of a node, which must be below nodes() (not checked).
  std::uint32_t in_node(std::uint32_t node) const { return per_node_[node]; }
  /// Returns the number of free slices of a node, as total(); `node` is below nodes().
  std::uint32_t total_in_node(std::uint32_t node) const;
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
  /// Takes all free GPUs and slices of a node and appends them to `out`. Call after refresh_from().
  void take_node(std::uint32_t node, GpuRuns& out);
  /// Takes `slices` slices, fewer than slices_per_gpu(), of the GPU with the fewest free slices
  /// that suffice, of equal ones the first; nothing if no GPU has as many free slices and others
  /// that are not. Call after refresh_from().
  std::optional<GpuRuns> take_part(std::uint32_t slices);
  /// Removes GPUs, which must be free (not checked). Call after refresh_from().
  void remove_gpus(const GpuRuns& gpus);
  /// Adds the GPUs of a job that is about to leave them to the free GPUs, except GPUs that are not
  /// healthy or have another kind. The GPUs must not be free already (not checked). Call after
  /// refresh_from().
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
  bool is_excluded(std::uint32_t node) const { return !excluded_.empty() && excluded_[node] != 0; }
  void update_node(std::uint32_t node);
  void set_free_count(std::uint32_t node, std::uint32_t free);
  /// Sets the number of free slices of a GPU of a cluster of slices.
  void set_room(std::uint32_t gpu, std::uint32_t room);
  void mark_run(GpuRuns::Run run, bool free);
  /// Returns the bits of the node's free GPUs.
  std::uint64_t* bits_of(std::uint32_t node);

  const ClusterState* state_ = nullptr;
  std::uint32_t slices_, gpus_per_node_, nodes_per_unit_, words_, whole_ = 0, in_parts_ = 0;
  /// `words_` for each node, one bit for each GPU, or for each slice
  std::vector<std::uint64_t> free_bits_;
  /// one flag for each node: true if its bits are up to date; otherwise they are read when needed
  std::vector<std::uint8_t> known_;
  std::vector<std::uint32_t> per_node_;
  std::vector<Nodes> with_;                        ///< indexed by number of free GPUs
  Nodes not_full_;
  std::uint64_t followed_ = 0;  ///< number of the state's changes that have been followed
  std::vector<std::uint32_t> ours_;                ///< nodes that the pass has changed
  std::vector<std::uint8_t> excluded_;  ///< nodes of other kinds, one byte a node; empty: none
  std::vector<std::uint16_t> room_;     ///< free slices by GPU; empty in a cluster of GPUs
  /// GPUs of which some slices are free and others are not, by free slices
  std::set<std::pair<std::uint32_t, std::uint32_t>> parts_;
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
  ///
  /// In a cluster of slices, a job of fewer slices than a GPU has gets slices of one GPU: of the
  /// one that FreeGpus::take_part() chooses, otherwise of a free GPU, which is chosen as for a job
  /// of one GPU. Other jobs get whole GPUs.
  std::optional<GpuRuns> place_job(const JobSpec& job, FreeGpus& free) const;
  /// Returns `gpus` whole GPUs for a job of this layout, otherwise as place_job().
  virtual std::optional<GpuRuns> place_gpus(std::uint32_t gpus, const ParallelLayout& layout,
                                            FreeGpus& free) const = 0;
};

/// Free GPUs by kind during one pass, in a cluster whose GPUs have several kinds.
class FreeKinds {
 public:
  explicit FreeKinds(const Cluster& cluster);

  /// Returns true for a cluster whose GPUs have no kinds, or all the same.
  bool empty() const { return kinds_.empty(); }
  /// Returns the number of kinds; 0 if empty().
  std::size_t size() const { return kinds_.size(); }
  /// Returns the number of free GPUs of a kind; `kind` < size().
  std::uint32_t total(std::size_t kind) const { return kinds_[kind].free.total(); }
  /// Returns the kind of a job's GPUs. Throws an internal Error for a job without GPUs.
  std::size_t kind_of(const GpuRuns& gpus) const;
  /// Returns the kinds that a job may use, in the order of JobSpec::gpu_kinds; all kinds, in the
  /// order of the cluster, if the job names none.
  std::vector<std::size_t> order_for(const JobSpec& job) const;
  /// Begins a pass, as FreeGpus::refresh_from().
  void refresh_from(const ClusterState& state);
  /// Returns the GPUs that `placer` has for the job, of the first kind of order_for() on which the
  /// job fits, and removes them; nothing if the job fits on no kind.
  std::optional<GpuRuns> place_job(const JobSpec& job, const Placer& placer);
  /// Adds the GPUs of a job, as FreeGpus::return_gpus().
  void return_gpus(const GpuRuns& gpus);

 private:
  struct Kind {
    std::string name;
    FreeGpus free;
  };
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> of_node_;  ///< indexed by node: its kind
  std::uint32_t gpus_per_node_;
};

/// Returns the names of all placers.
std::vector<std::string> placer_names();

/// Returns a new placer. Throws bad_input with the nearest name for an unknown name.
std::unique_ptr<Placer> make_placer(std::string_view name);

}  // namespace orrery
