// Account of the process groups of a user's program: which operations each of them carries through
// a loss, and the lines about it. Used by program_run, which gets the messages of the ranks. Plain
// state without processes. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Process groups of one description and size, for example the shard groups of HSDP.
struct GroupKind {
  std::string name;                 ///< description by the program or PyTorch: "mesh_shard"
  std::size_t ranks = 0;            ///< ranks of each group
  std::set<std::string> keys;       ///< keys of the groups, without their backends
  std::string uncarried_operation;  ///< first operation of any of them that no loss may interrupt;
                                    ///< empty: all operations so far are carried through a loss
};

/// Groups of one attempt of a run, by kinds. Groups of one rank are left out: their loss is that of
/// their only rank. Example: HSDP of two replicas with two ranks each has one group "default_pg" of
/// 4 ranks, two groups "mesh_replicate" and two groups "mesh_shard" of 2 ranks; only those of the
/// last kind have an uncarried operation, reduce_scatter.
class GroupBook {
 public:
  /// Records a message of a rank: "group KEY NAME RANKS" at the creation of a group, with the
  /// number of its ranks, or "sharded KEY OPERATION" at its first operation that no loss may
  /// interrupt. Returns the line for the user if this is the first such message about the kind;
  /// else an empty text. Throws std::exception if a number or a field is missing.
  std::string record_message(const Fields& fields);
  /// Returns the line about the tier of the run, with its reason, if the messages since the last
  /// call have changed the tier; else an empty text. T0 begins with the first group. It ends with
  /// the first operation of all `world` ranks that no loss may interrupt: `has_restarts` decides
  /// between tier T1 and none.
  std::string drain_tier_line(std::size_t world, bool has_restarts);
  /// Returns the kinds in the order of their first groups.
  const std::vector<GroupKind>& kinds() const { return kinds_; }

 private:
  std::string record_group(const std::string& key, const std::string& name, std::size_t ranks);
  std::string record_uncarried(const std::string& key, const std::string& operation);

  std::vector<GroupKind> kinds_;
  bool has_survivors_ = false, has_no_survivors_ = false;  ///< tiers that have had their lines
  std::map<std::string, std::size_t> kind_of_key_;  ///< positions in kinds_, by key with backend
};

}  // namespace orrery::live
