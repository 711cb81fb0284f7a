// GPUs that a site keeps without work, so that a cluster stays within a limit of power. To policies
// such a GPU is lost until the site opens it. Kept by sim/replay/recorded_jobs; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "policies/seam/world.hpp"
#include "sim/world/job_model.hpp"

namespace orrery::sim {

/// Set of closed GPUs. The site closes idle GPUs of the fullest nodes first, of equally full nodes
/// those of the last ones, so that idle nodes stay open as a whole, and chooses anew when a job has
/// left its GPUs. It stops the jobs that started last if too few GPUs are idle.
///
/// For example, an idle cluster of 4 nodes of 8 GPUs that may have 20 GPUs at work closes the last
/// node and the last four GPUs of the one before.
class ClosedGpus {
 public:
  /// Constructs an empty set; `world` must outlive it.
  explicit ClosedGpus(const World& world);

  /// Stops a job, which leaves its GPUs.
  using Stop = std::function<void(JobId)>;
  /// Facts of which a change may change the set.
  struct Facts {
    std::uint32_t most = ~0u;      ///< GPUs that may work at once
    std::uint32_t down = 0;        ///< nodes that are down
    std::uint64_t outages = 0;     ///< number of outages of nodes so far
    std::uint64_t departures = 0;  ///< number of times that a job has left its GPUs so far
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  /// Closes and opens GPUs, so that at most `most` GPUs that are not closed are in nodes that are
  /// up. Calls `stop` for jobs that must leave their GPUs, the newest first, and emits PartChanged
  /// for each GPU that changes. Does nothing if the facts are those of the last call.
  void choose_gpus(const Facts& facts, const Stop& stop, const JobModel::Happen& happen);
  /// Records that a policy has taken the GPUs of a job at `now`: the set is then chosen anew at
  /// next_choice_time(), because a waiting job may fit into whole nodes only.
  void record_departure(Nanos now) {
    if (count_ > 0) due_ = now;
  }
  /// Returns the instant at which choose_gpus() is due without another event; kNever if none is.
  Nanos next_choice_time() const { return due_; }
  /// Returns the number of closed GPUs, all in nodes that are up.
  std::uint32_t count() const { return count_; }

 private:
  std::vector<std::uint32_t> idle_by_node() const;
  void stop_newest(std::uint32_t idle, const Stop& stop) const;
  std::vector<std::uint32_t> quotas(std::uint32_t count) const;
  void change_node(std::uint32_t node, std::uint32_t quota, const JobModel::Happen& happen);

  const World& world_;
  std::vector<bool> is_closed_;                ///< indexed by GPU; empty before the first one
  std::vector<std::uint32_t> closed_by_node_;  ///< closed GPUs by node
  std::uint32_t count_ = 0;
  Facts facts_ = {};
  Nanos due_ = kNever;
};

}  // namespace orrery::sim
