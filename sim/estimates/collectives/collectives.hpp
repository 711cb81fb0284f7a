// How a collective goes over a cluster: one table of algorithms, each as phases that follow one
// another. A phase is many equal flows at once, given as the links that they cross and how many
// cross each, so that the simulator carries it out as one wide flow; its messages' latencies come
// on top. Called by sim/estimates/plan/plan and by whoever prices a collective; needs no engine.
// Thread-safe: no state. Seconds and bytes. `size` of a collective is the whole buffer that is
// reduced, gathered, scattered or broadcast, and of all_to_all what one rank sends, its own part
// included.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "core/units.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/collective.hpp"

namespace orrery::estimates {

/// A link and how many of a phase's equal flows cross it at once.
struct LinkLoad {
  LinkId link;
  std::uint32_t flows = 0;
  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

/// Ends before the next one begins.
struct CollectivePhase {
  std::vector<LinkLoad> links;  ///< ascending
  double share = 0;             ///< bytes of one flow per byte of the collective's size
  double rounds = 0;            ///< messages that wait for one another ...
  double far_rounds = 0;        ///< ... and those of them that leave an NVLink domain
  Seconds latency;              ///< of all rounds together
};

struct CollectiveSchedule {
  /// What is carried out: ring or direct where the group cannot do what was asked for.
  CollectiveAlgorithm algorithm{};
  std::vector<CollectivePhase> phases;  ///< none: nobody to talk to
  std::uint32_t per_domain = 1;         ///< members in an NVLink domain, the most of any
};

using GpuGroup = std::vector<GpuId>;

/// The same collective in several groups of equal size at once (the data-parallel groups of a
/// stage, say): one schedule with the flows of all. Ranks are in the order of their group; the
/// first is the root of a broadcast and the sender of send_receive (to the last one).
/// `automatic` is not an algorithm here: choose_algorithm() finds one. Throws bad_input if a group
/// is empty, if sizes differ, or if a GPU is not of this cluster.
CollectiveSchedule collective_schedule(const Cluster& cluster, CollectiveKind kind,
                                       CollectiveAlgorithm algorithm,
                                       const std::vector<GpuGroup>& groups);

/// Closed form: what the schedule takes where its links carry nothing else.
Seconds uncontended_time(const Cluster& cluster, const CostProfile& profile,
                         const CollectiveSchedule& schedule, Bytes size);

/// The algorithm that is fastest alone, protocols included
/// (sim/estimates/collectives/protocols.hpp); the first of ties in the enum's order.
CollectiveAlgorithm choose_algorithm(const Cluster& cluster, const CostProfile& profile,
                                     CollectiveKind kind, const std::vector<GpuGroup>& groups,
                                     Bytes size);

/// What a flow over a healthy link alone reaches, bytes per second.
double link_rate(const Cluster& cluster, const CostProfile& profile, LinkId link);

/// Rings (channels) over the members of a group: one where each NVLink domain holds one member;
/// where domains hold k each, k rings that leave them by different GPUs, so that every rail carries
/// its part, and stay on their rails where the domains are even in number.
std::vector<GpuGroup> ring_channels(const Cluster& cluster, const GpuGroup& members);

}  // namespace orrery::estimates
