// Prediction intervals of single collectives. Called by `orrery simulate` for a scenario with a
// `collective`. Thread-safe: no state. Seconds and bytes.
#pragma once

#include <cstdint>

#include "sim/estimates/predict/interval.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/collective.hpp"

namespace orrery::estimates {

/// Single collective among the first `ranks` GPUs of a cluster.
struct CollectiveCall {
  CollectiveKind kind{};
  CollectiveAlgorithm algorithm{};  ///< automatic: the cheapest
  std::uint32_t ranks = 0;
  Bytes size;
};

/// Returns the interval of measured times around the simulated time of a collective. Published
/// sources time a call with its launch or without: the 80% interval contains the start of every
/// source of the GPU family, and both intervals the errors of rates in sources that the fit had not
/// seen (topologies/catalog/kernels.yaml, docs/accuracy.md). For example, an all-reduce of 1 MiB
/// among 8 H100, published with 25, 34 and 42 us, has an interval around all three. The class of
/// the basis says whether collectives of the GPU were measured, and inside or between NVLink
/// domains. Throws bad_input if the cluster has fewer GPUs than the call has ranks.
Interval collective_interval(const Cluster& cluster, const CollectiveCall& call,
                             double simulated_s);

}  // namespace orrery::estimates
