// A machine's profile fitted to what was measured on it: matrix products by the cost model's own
// formula, links by a straight line over the sizes of sums. Called by `orrery calibrate`; pure.
// Seconds and bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topologies/machine.pb.h"

namespace orrery::estimates {

/// Everything but what a run has to tell (RankLinks.control, and the latency inside a step).
MachineProfile fit_machine(const MachineMeasurements& measured);

/// Mean of |log(predicted / measured)| over the products under the fitted profile.
double product_error(const MachineMeasurements& measured, const MachineProfile& fitted);

/// A ring's round and bandwidth from sums of some sizes among `ranks`.
RankLinks fit_links(std::uint32_t ranks, std::span<const MachineMeasurements::Sum> sums);

}  // namespace orrery::estimates
