// Serialization of the world of a live run for the journal's snapshots. The complete world is
// stored, so that a successor of the controller shows its policies the same state. Single-threaded.
#pragma once

#include "live/supervision.pb.h"
#include "policies/seam/world.hpp"

namespace orrery::live {

/// Writes `world` into `kept`, an empty message. Returns false, with `kept` unusable, while a
/// decision has no outcome, and once a job is done or removed.
bool keep(const World& world, KeptWorld& kept);
/// Returns the world of `cluster` that `kept` holds. Throws an environment Error if `kept` does not
/// fit the cluster or is damaged. `cluster` must outlive the world.
World read_world(const KeptWorld& kept, const Cluster& cluster);

}  // namespace orrery::live
