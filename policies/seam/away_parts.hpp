// Parts of the cluster that policies of placement cannot count on, followed from observation to
// observation. Used by the policies of recovery and queues. Plain value; one thread.
#pragma once

#include <optional>
#include <set>

#include "policies/seam/byte_archive.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Set of the parts that are away: lost, or announced to be removed. A slower part is not away, so
/// that a policy that acts only on changes of this set decides nothing because of a rate. For
/// example, a GPU that becomes slower changes nothing; a lost GPU that returns slower does.
class AwayParts {
 public:
  /// Reads the changed parts of an observation. Returns true if a part of them is away, or was away
  /// before; at the first observation, if any part has changed. Call once for each observation, in
  /// order.
  bool read_changes(const Observation& seen);

  /// Appends the set.
  void save_to(ByteWriter& write) const;
  /// Replaces the set. Throws an internal Error if too few bytes remain.
  void load_from(ByteReader& read);

 private:
  std::optional<std::set<Part>> away_;  ///< nothing before the first observation
};

}  // namespace orrery
