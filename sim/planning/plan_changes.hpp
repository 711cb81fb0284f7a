// Money, energy and probabilities of a planned run, and the effect of one change at a time on the
// recommended run. Called by sim/planning/plan and by the rules of the training spec. One thread;
// no state between calls.
#pragma once

#include <vector>

#include "sim/planning/plan.hpp"

namespace orrery::sim {

/// Multiplies the bandwidth of the NICs and of the links between switches of a resolved cluster.
void scale_network(Topology& cluster, double factor);

/// Writes cost, energy, carbon and the probabilities of the goals into a row that has its outcome.
/// All reserved GPUs are paid and powered, spares at idle power.
void price_row(const PlanQuestion& question, const Cluster& cluster, PlannedRun& row);

/// Returns the effects of single changes of the row, by the time that they save, most first: faster
/// NICs, failures, repairs, restarts, checkpoints, micro-batch, recomputation, one more spare node.
/// Layouts that a change would make impossible are left out.
std::vector<PlanChange> changes_of(const PlanBasis& basis, const PlannedRun& row);

}  // namespace orrery::sim
