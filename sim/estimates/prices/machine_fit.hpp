// Fit of a machine profile to measurements. Called by `orrery calibrate`; pure. Seconds and bytes.
//
// Matrix products are fitted by grid search over the cost model's own formula, links by weighted
// least squares: t = rounds x latency + share x bytes / bandwidth, with rounds = 2 (n - 1) and
// share = 2 (n - 1) / n. For example, among 2 ranks a sum of b bytes takes 2 x latency + b /
// bandwidth.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topologies/machine.pb.h"

namespace orrery::estimates {

/// Returns the fitted profile, except the values that only a run can show (RankLinks.control, and
/// the latency inside a step). All measured times must be above 0 s (not checked). Throws as
/// fit_links() if a measured number of ranks has too few sums.
MachineProfile fit_machine(const MachineMeasurements& measured);

/// Returns the mean of |log(predicted / measured)| over the products under the fitted profile; 0
/// without products.
double product_error(const MachineMeasurements& measured, const MachineProfile& fitted);

/// Returns the round latency and bandwidth of a ring among `ranks`, fitted to sums of at least two
/// sizes; sums of one size give latency 0. Throws an internal Error for fewer than two ranks or
/// sums.
RankLinks fit_links(std::uint32_t ranks, std::span<const MachineMeasurements::Sum> sums);

}  // namespace orrery::estimates
