// States of parts as a cluster's monitoring reports them, and the events that report a change, the
// same in simulated and live runs. Pure functions; thread-safe.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "policies/seam/event.hpp"

namespace orrery {

/// Returns the states of the parts that are lost, that are slower than their data sheet says, or
/// whose removal is announced. A lost part has rate 0, also if it is in `slower`; any other part
/// works, with its share of `slower` as rate. PartState::since is 0. For example, a GPU with half
/// of its speed is {Health::ok, 0.5}.
std::map<Part, PartState> reported_parts(const std::set<Part>& lost,
                                         const std::map<Part, double>& slower,
                                         const std::map<Part, Removal>& removals);
/// Returns true if the part works with less than the rate of its data sheet. No rank is lost with
/// such a part, and its GPUs may be assigned.
inline bool is_slower(const PartState& state) {
  return state.health == Health::ok && state.rate < 1;
}
/// Returns true if two states of a part differ at most in the instant `since`.
bool is_same_report(const PartState& a, const PartState& b);
/// Returns the events that change the states `known` into `reported`, which must come from
/// reported_parts(): first the parts of `reported` whose state differs (is_same_report()), then the
/// parts that are as their data sheet says again, each ascending. Empty if nothing differs.
std::vector<PartChanged> part_changes(const std::map<Part, PartState>& known,
                                      const std::map<Part, PartState>& reported);

}  // namespace orrery
