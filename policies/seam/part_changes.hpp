// States of parts as a cluster's monitoring reports them, and the events that report a change, the
// same in simulated and live runs. Pure functions; thread-safe.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "policies/seam/event.hpp"

namespace orrery {

/// Returns the states of the parts that are lost or whose removal is announced, each with its
/// removal, if any: a lost part has rate 0, any other part works. PartState::since is 0.
std::map<Part, PartState> reported_parts(const std::set<Part>& lost,
                                         const std::map<Part, Removal>& removals);
/// Returns the events that change the states `known` into `reported`, which must come from
/// reported_parts(): first the parts of `reported` whose health or removal differs, then the parts
/// that have returned, each ascending. Empty if nothing differs.
std::vector<PartChanged> part_changes(const std::map<Part, PartState>& known,
                                      const std::map<Part, PartState>& reported);

}  // namespace orrery
