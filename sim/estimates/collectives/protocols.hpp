// Costs of NCCL's protocols: LL and LL128 send flags beside the data and so avoid waiting; Simple
// sends data alone and synchronises each round. The coefficients are fitted to measurements
// (python/calibration): a start time, longer rounds, more bytes, and the fill of the pipeline.
// Called where collectives are priced or planned; needs no engine. Thread-safe: no state. Seconds
// and bytes.
//
// For example, a Simple transfer of t seconds through a pipeline with fill time f takes t + 2
// sqrt(t x f) beside the latency of its rounds.
#pragma once

#include <cstdint>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Protocol of NCCL.
enum class Protocol : std::uint8_t { ll, ll128, simple };

/// Schedule with the costs of its fastest protocol.
struct PricedSchedule {
  Protocol protocol{};          ///< protocol that is fastest alone
  /// schedule whose shares and latencies contain the protocol's costs
  CollectiveSchedule schedule;
  Seconds alone;                ///< uncontended_time() of `schedule`
};

/// Returns `schedule` of a collective `kind` of `size` bytes with the costs of the fastest
/// protocol. If the profile has no protocol coefficients, the returned schedule equals the
/// argument.
PricedSchedule price_protocols(const Cluster& cluster, const CostProfile& profile,
                               CollectiveKind kind, CollectiveSchedule schedule, Bytes size);

}  // namespace orrery::estimates
