// Comparison of the training states that the replicas of a job hold. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "live/checkpoint/checksum.hpp"

namespace orrery::live {

/// Result of compare_replicas(), both lists ascending.
struct ReplicaVerdict {
  /// Ranks that differ from a majority of at least two ranks; their state is damaged.
  std::vector<std::uint32_t> outvoted;
  /// Ranks with different states and no majority among them: for example, two ranks alone.
  std::vector<std::uint32_t> undecided;
  /// Returns true if all replicas agree.
  bool is_agreed() const { return outvoted.empty() && undecided.empty(); }
};

/// Compares the checksums of the parts that the ranks hold, by rank. Each part is voted on by the
/// ranks that hold it. A rank that another part's vote names is not among the undecided ones, nor
/// are the ranks that only differ from such a rank.
ReplicaVerdict compare_replicas(const std::map<std::uint32_t, PartChecksums>& ranks);

/// Returns why the shards, by index, are no state of the training: the writers' states differ, or
/// the shards are not the state that the writers held. Empty if nothing is wrong, and if a writer
/// has reported no state.
std::string find_disagreement(const std::vector<ShardProof>& shards);

}  // namespace orrery::live
