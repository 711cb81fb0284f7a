// Section `failures:` of a scenario, written from failures that were learnt from a log. Used by
// `orrery fit failures`. Pure functions; thread-safe. For example, 37 losses of 128 nodes in 180
// days give a kind with `counted: {count: 37, parts: 128, time: 180 d}`.
#pragma once

#include <cstdint>

#include "traces/failures/failure_fit.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the section: a kind for each cause, with its count and the distributions of its times,
/// and the unreliable nodes, whose share of the failures is not in the counts. A cause with one
/// recovery time has a fixed one, a log-normal one its median and sigma, any other the
/// means of up to 50 groups of its observed times. `gpus_per_node` must be at least 1.
Failures failure_section(const FailureFit& fit, std::uint32_t nodes, std::uint32_t gpus_per_node);

}  // namespace orrery
