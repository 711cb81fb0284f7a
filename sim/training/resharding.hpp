// Time in which the ranks of a simulated training job take over the state for replicas of other
// sizes, for example for a shallower pipeline: each rank then holds other layers. Called when an
// assignment is activated. Pure function; thread-safe for different fits.
#pragma once

#include "core/units.hpp"
#include "sim/training/fitted_job.hpp"
#include "topologies/cluster.hpp"

namespace orrery::sim {

/// Returns the time of a change from the working replicas of `before` to those of `after`; 0 if
/// both have replicas of the same sizes. Each rank of `after` receives all parameters and all
/// optimizer state of its stage, also the part that its GPU holds already: an upper bound. The
/// ranks of `before` send equal amounts, because several of them hold each part or can pass it on.
/// All transfers run at once: the time is that of the link with the longest load, a GPU's NVLink if
/// one NVLink domain has all GPUs, otherwise a NIC. For example, 8 ranks on 8 NICs that receive
/// 5 GB each from 8 ranks take 100 ms at 50 GB/s.
Nanos reshard_time(const Cluster& cluster, const FittedJob& before, FittedJob& after);

}  // namespace orrery::sim
