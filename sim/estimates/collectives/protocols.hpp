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
#include <optional>
#include <span>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Protocol of NCCL.
enum class Protocol : std::uint8_t { ll, ll128, simple };

/// Schedule with the costs of its fastest protocol.
struct PricedSchedule {
  Protocol protocol{};  ///< protocol that is fastest alone
  /// schedule whose shares and latencies contain the protocol's costs
  CollectiveSchedule schedule;
  Seconds alone;  ///< uncontended_time() of `schedule`
};

/// Returns `schedule` of a collective `kind` of `size` bytes with the costs of the fastest
/// protocol. If the profile has no protocol coefficients, the returned schedule equals the
/// argument.
PricedSchedule price_protocols(const Cluster& cluster, const CostProfile& profile,
                               CollectiveKind kind, CollectiveSchedule schedule, Bytes size);

/// Returns the candidate that is fastest alone, protocols included, among the candidates that serve
/// these groups themselves; of equal times the first. Nothing if no candidate serves the groups in
/// a finite time. Throws bad_input for groups as collective_schedule() does.
std::optional<CollectiveAlgorithm> fastest_alone(const Cluster& cluster, const CostProfile& profile,
                                                 CollectiveKind kind,
                                                 const std::vector<GpuGroup>& groups, Bytes size,
                                                 std::span<const CollectiveAlgorithm> candidates);

/// Returns the algorithms of NCCL that compete for a collective of this kind, for example ring,
/// tree and reduction in the switches for an all-reduce.
std::span<const CollectiveAlgorithm> nccl_algorithms(CollectiveKind kind);

/// Returns the algorithm that is fastest alone among nccl_algorithms(), protocols included: the
/// choice that the measured sources of the coefficients made. A profile without protocol
/// coefficients has no such sources: then choose_algorithm() decides. Throws bad_input for groups
/// as collective_schedule() does.
CollectiveAlgorithm choose_nccl_algorithm(const Cluster& cluster, const CostProfile& profile,
                                          CollectiveKind kind, const std::vector<GpuGroup>& groups,
                                          Bytes size);

}  // namespace orrery::estimates
