// Tiers of checkpoints, and the nodes whose memory holds the copies of a checkpoint. Both worlds
// and the policies' view of the world follow these rules. Plain values; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "core/schema/names.hpp"
#include "core/units.hpp"

namespace orrery {

class Cluster;
struct CheckpointPlan;

/// Storage of a checkpoint, from the fastest to the most durable. `memory`: each rank's shard is in
/// the memory of the rank's node. `peer`: a second copy is in the memory of another rank's node.
/// `local_disk`: the folder of the run's checkpoints. `storage`: a second folder, on
/// shared storage.
enum class Tier : std::uint8_t { memory, peer, local_disk, storage };
constexpr std::array<std::string_view, 4> names_of(Tier) {
  return {"memory", "peer", "local-disk", "storage"};
}

/// Returns true if the copies of the tier are in the memory of nodes, so that they survive the
/// death of processes and are lost with the nodes.
inline bool is_in_memory(Tier tier) { return tier == Tier::memory || tier == Tier::peer; }

/// Nodes whose memory holds one shard of a checkpoint. Both are the same node if only one holds it.
struct CopyHolders {
  NodeId node, peer;
  friend bool operator==(const CopyHolders&, const CopyHolders&) = default;
};

/// Returns the holders of the shards of a checkpoint that the ranks on `gpus` write, by rank; empty
/// for a tier that is not in memory. Of the tier `peer` the second holder is the node of the rank
/// that copy_keepers() (failure_domain.hpp) chooses: in another rack or node where the ranks allow
/// it. For example, ranks on the nodes 0, 0, 1, 1 give {0, 1}, {0, 1}, {1, 0}, {1, 0}.
std::vector<CopyHolders> copy_holders(Tier tier, const Cluster& cluster,
                                      const std::vector<GpuId>& gpus);

/// Removes the node `lost` from the holders: the other holder alone holds the shard then. Returns
/// false if a shard has no holder left, so that the checkpoint is lost; true otherwise.
bool remove_holder(std::vector<CopyHolders>& holders, NodeId lost);

/// Complete checkpoint of a job.
struct HeldCheckpoint {
  Step step = 0;                          ///< step with which the job would continue
  Tier tier{};                            ///< place of the copies
  Nanos at = 0;                           ///< instant at which the checkpoint was complete
  std::vector<CopyHolders> holders = {};  ///< holders by shard; empty unless in memory
  friend bool operator==(const HeldCheckpoint&, const HeldCheckpoint&) = default;
};

/// Newest complete checkpoint of each tier of a job. The copies of lost nodes are lost, also if the
/// node returns. For example, after checkpoints of step 10 on the disk and of step 14 in memory,
/// newest() is that of step 14 until one of its nodes is lost, and then that of step 10.
class HeldCheckpoints {
 public:
  /// Records a complete checkpoint and forgets the earlier one of its tier. No effect if a later
  /// one of the tier is known.
  void add_checkpoint(HeldCheckpoint checkpoint);
  /// Removes the copies in the memory of `node`, and the checkpoints that lack a shard then.
  void lose_node(NodeId node);
  /// Forgets the checkpoints of steps after `step`.
  void forget_after(Step step);
  /// Returns the checkpoint with the latest step, of equal steps that of the fastest tier; null
  /// without a checkpoint. Valid until the next change.
  const HeldCheckpoint* newest() const;
  /// Returns all checkpoints, in the order of their tiers.
  const std::vector<HeldCheckpoint>& all() const { return all_; }
  friend bool operator==(const HeldCheckpoints&, const HeldCheckpoints&) = default;

 private:
  std::vector<HeldCheckpoint> all_;
};

/// Checkpoints that were requested and have not begun. One checkpoint begins at the end of a step:
/// the periodic one if it is due, otherwise the requested one of the fastest tier; the other
/// requests wait for the next step.
class SaveRequests {
 public:
  /// Requests a checkpoint of the tier; requests of one tier count once.
  void request_save(Tier tier) { asked_.insert(tier); }
  /// Returns true if no request waits.
  bool is_empty() const { return asked_.empty(); }
  /// Returns true if a request of the tier waits.
  bool has_request(Tier tier) const { return asked_.contains(tier); }
  /// Returns the tier of the checkpoint that begins before `step`; nothing if none is due. Removes
  /// no request.
  std::optional<Tier> due(Step step, const CheckpointPlan& plan) const;
  /// Removes the request of the tier, if any.
  void remove_request(Tier tier) { asked_.erase(tier); }
  /// Adds the requests of `others`, which has none afterwards.
  void take_over(SaveRequests& others) {
    asked_.merge(others.asked_);
    others.asked_.clear();
  }

  /// Passes all members to an archive of a saved state, which reads or writes them.
  template <class Archive>
  friend void fields(Archive& archive, SaveRequests& of) {
    archive(of.asked_);
  }

 private:
  std::set<Tier> asked_;
};

}  // namespace orrery
