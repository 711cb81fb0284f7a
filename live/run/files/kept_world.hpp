// The world of a live run written down and read again: what its journal begins anew with. All of
// it, so that a controller that takes over shows its policies what they would have seen. One
// thread.
#pragma once

#include "live/supervision.pb.h"
#include "policies/seam/world.hpp"

namespace orrery::live {

/// False, and nothing to go on from, while a decision has no outcome yet or a job is leaving.
bool keep(const World& world, KeptWorld& kept);
/// Into a new world of the same cluster. Throws an environment Error for what is not one of it.
void restore(const KeptWorld& kept, World& world);

}  // namespace orrery::live
