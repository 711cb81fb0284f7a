// Schedules of collectives on a cluster: a table of algorithms, each as phases that follow one
// another. A phase is many equal flows at once, given as the links that they cross and the number
// of flows per link, so that the simulator executes the phase as one wide flow; the latencies of
// the messages are added. Called by sim/estimates/plan/plan and by code that prices a collective;
// needs no engine. Thread-safe: no state. Seconds and bytes.
//
// The `size` of a collective is the whole buffer that is reduced, gathered, scattered or broadcast;
// the size of an all_to_all is the bytes that one rank sends, its own part included.
//
// For example, a ring all-reduce of S bytes among n ranks is one phase of 2 (n - 1) rounds in which
// each flow carries 2 (n - 1) / n x S bytes (Patarasuk, Yuan 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "core/units.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/collective.hpp"

namespace orrery::estimates {

/// Link, and the number of a phase's equal flows that cross the link at once.
struct LinkLoad {
  LinkId link;
  std::uint32_t flows = 0;
  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

/// Phase of a schedule. A phase ends before the next phase begins.
struct CollectivePhase {
  std::vector<LinkLoad> links;  ///< ascending
  double share = 0;             ///< bytes of one flow per byte of the collective's size
  double rounds = 0;            ///< messages of the phase that wait for one another
  double far_rounds = 0;        ///< part of `rounds` that leaves an NVLink domain
  Seconds latency;              ///< latency of all rounds together
};

/// Phases by which an algorithm executes a collective.
struct CollectiveSchedule {
  /// Algorithm that is executed: ring or direct if the groups cannot use the requested one.
  CollectiveAlgorithm algorithm{};
  std::vector<CollectivePhase> phases;  ///< phases in order; empty for groups of one rank
  std::uint32_t per_domain = 1;         ///< largest number of members in one NVLink domain
};

/// GPUs of a group in rank order.
using GpuGroup = std::vector<GpuId>;

/// Returns the schedule of one collective that several groups of equal size execute at once (for
/// example the data-parallel groups of a stage), with the flows of all groups; without groups, and
/// for groups of one rank, no phases. The GPUs of a group must be distinct (not checked). Ranks are
/// in the order of their group; the first rank is the root of a broadcast and the sender of a
/// send_receive (to the last rank). Throws bad_input if a group is empty, if sizes differ, or if a
/// GPU is not part of this cluster; throws an internal Error for `automatic`, which is no
/// algorithm: choose_algorithm() finds one.
CollectiveSchedule collective_schedule(const Cluster& cluster, CollectiveKind kind,
                                       CollectiveAlgorithm algorithm,
                                       const std::vector<GpuGroup>& groups);

/// Returns the seconds of the schedule if its links carry nothing else: the sum over phases of
/// latency + size x share x max over links of (flows / rate).
Seconds uncontended_time(const Cluster& cluster, const CostProfile& profile,
                         const CollectiveSchedule& schedule, Bytes size);

/// Returns the algorithm that is fastest alone, protocols included
/// (sim/estimates/collectives/protocols.hpp), among the algorithms that serve these groups
/// themselves; of equal times the first in the order of the enum. Throws bad_input for groups as
/// collective_schedule() does.
CollectiveAlgorithm choose_algorithm(const Cluster& cluster, const CostProfile& profile,
                                     CollectiveKind kind, const std::vector<GpuGroup>& groups,
                                     Bytes size);

/// Returns the rate of a flow alone on a link without faults, in bytes per second: the bandwidth x
/// the profile's share of NVLink or network; with link_limit 1 / (1 / rate + 1 / link_limit).
double link_rate(const Cluster& cluster, const CostProfile& profile, LinkId link);

/// Returns the rings (channels) over the members of a group, which must not be empty. If the group
/// lies in one NVLink domain, or domains hold different numbers of members, the result is one ring.
/// If several domains hold k members each, the result is k rings that leave the domains by
/// different GPUs, so that every rail carries a part; with an even number of domains each ring
/// stays on its rail.
std::vector<GpuGroup> ring_channels(const Cluster& cluster, const GpuGroup& members);

}  // namespace orrery::estimates
