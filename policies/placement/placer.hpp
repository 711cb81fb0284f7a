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

/// What is free during one pass: the cluster's state less what the pass has given away. Refreshing
/// is O(nodes); it never copies GPUs.
class FreeGpus {
 public:
  explicit FreeGpus(const Cluster& cluster);

  /// Begins a pass; `state` must outlive it.
  void refresh(const ClusterState& state);
  std::uint32_t total() const { return total_; }
  std::uint32_t in_node(std::uint32_t node) const { return per_node_[node]; }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(per_node_.size()); }
  std::uint32_t gpus_per_node() const { return gpus_per_node_; }
  /// Takes the `count` lowest free GPUs of a node and appends them; there must be as many.
  void take(std::uint32_t node, std::uint32_t count, GpuRuns& out);

 private:
  const ClusterState* state_ = nullptr;
  std::uint32_t gpus_per_node_, total_ = 0;
  std::vector<std::uint32_t> per_node_;
  std::vector<std::uint64_t> given_in_;  ///< per GPU: the pass that gave it away
  std::uint64_t pass_ = 0;
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
