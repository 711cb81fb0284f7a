// Cache of the facts that all plans of a job share. Owned by sim/estimates/step/stepper, used by
// sim/estimates/plan/plan. One thread. Seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/flow_counter.hpp"
#include "sim/estimates/collectives/ring_edges.hpp"
#include "sim/estimates/plan/binding_links.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

class PlanBase;

/// Cache of the same job with more replicas, from which this cache derives its results. The
/// replicas of this job have the same placement there.
struct Whole {
  PlanBase* base = nullptr;  ///< base of the larger job, or null
  std::vector<std::uint32_t> kept = {};  ///< number of each replica in the larger job, ascending
};

/// Cache of facts that all plans of a job share: kinds of paths between stages, and the links that
/// transfers and collectives of all replicas together cross. Each fact is computed on first use, so
/// that another plan costs time for its differences (a straggler, other shares of the
/// micro-batches) and not for all ranks of the job. After a loss of replicas, the results are
/// derived from the larger job as differences. A plan made without this cache is the same. Not
/// thread-safe.
class PlanBase {
 public:
  /// Starts empty. All arguments passed by reference, and the larger job's cache, must outlive this
  /// object.
  PlanBase(const Cluster& cluster, const StepGraph& graph, const CostProfile& profile,
           const std::vector<GpuId>& placement, Whole whole = {});

  /// Returns the shape number by replica: equal numbers where each member's path from stage to
  /// stage is of the same kind.
  const std::vector<std::uint32_t>& shapes();
  /// Returns a number by replica: equal numbers where the transfers between stages meet these
  /// flows, by their numbers, equally often on each link of their GPUs and NICs. For example, in a
  /// tree the inner replicas send and receive more than the leaves. Valid until the next call.
  const std::vector<std::uint32_t>& traffic_shapes(const std::vector<std::uint32_t>& flows);
  /// Returns the flow counter, which is that of the larger job if there is one; the caller must
  /// drain the counter before any other call of this object.
  FlowCounter& counter() { return counter_; }

  /// Returns the links of a flow of all replicas, by the flow's number, which another method has
  /// returned. Valid as long as this object, as the other returned references unless noted.
  const std::vector<LinkLoad>& links(std::uint32_t flow);
  /// Returns the flow number of the transfers of all replicas and members between two neighbouring
  /// stages. With two stages each is both the next and the previous one: activations and gradients
  /// (`back`) are separate flows.
  std::uint32_t transfer(std::uint32_t from, std::uint32_t to, bool back);
  /// Returns the longest latency of a transfer among `replicas`, without the profile's transfer
  /// gap; 0 for no replicas.
  Seconds latency(std::uint32_t from, std::uint32_t to, bool back,
                  const std::vector<std::uint32_t>& replicas);

  /// Returns true if a communicator of this kind has data x context ranks, all those of its tensor
  /// rank, so that all communicators of a stage are alike in any plan. Call for `gradient`,
  /// `shard`, `replicate` and `expert_gradient` only: others may have as many ranks by chance.
  bool of_all(Communicator which) const;
  /// Returns the GPUs of the communicators of a stage that contain a rank of replica 0: of all of
  /// them if of_all().
  const std::vector<GpuGroup>& groups(std::uint32_t stage, Communicator which);
  /// Returns the number of NVLink domains of the first communicator of a stage.
  std::uint32_t domains(std::uint32_t stage, Communicator which);
  /// Phase of a collective of all replicas.
  struct Phase {
    std::uint32_t flow = 0;
    double share = 0;
    Seconds latency;
  };
  /// Returns the phases of a collective that all communicators of a stage execute at once. Call
  /// only if of_all(). Throws as collective_schedule().
  const std::vector<Phase>& collective(std::uint32_t stage, Communicator which,
                                       CollectiveKind kind, CollectiveAlgorithm algorithm);
  /// Returns the seconds for each byte of a collective that all communicators of a stage execute at
  /// once and alone, without latencies. Any communicator of gradients or parameters, also if not
  /// of_all(). Throws as collective_schedule().
  double seconds_per_byte(std::uint32_t stage, Communicator which, CollectiveKind kind,
                          CollectiveAlgorithm algorithm);
  /// Returns the algorithm that choose_algorithm() finds for the communicators of a stage; cached.
  /// Call only if of_all().
  CollectiveAlgorithm fastest(std::uint32_t stage, Communicator which, CollectiveKind kind,
                              Bytes size);

  /// Set of known flows for links without faults.
  struct Known {
    const KnownFlows& flows;
    /// Changes of each flow against the known flows, in their order; empty if no flow changed.
    std::vector<const std::vector<KnownFlows::Change>*> now = {};
  };
  /// Returns the known flows for these flow numbers, which other methods have returned; valid until
  /// the next call.
  Known known(const std::vector<std::uint32_t>& flows);

 private:
  /// Stage and kind of communicator.
  using Place = std::pair<std::uint32_t, Communicator>;
  using Changes = std::vector<KnownFlows::Change>;
  /// Links of a flow, or the flow of the larger job and the changes that turn it into this one.
  struct Flow {
    std::optional<std::vector<LinkLoad>> links;
    std::optional<std::uint32_t> of_whole;
    Changes changes = {};
  };
  /// Transfer of all replicas between two stages.
  struct Transfer {
    std::uint32_t flow = 0;
    std::vector<Seconds> latency;  ///< longest latency of each replica
  };
  /// Communicators of a stage as rings, for communicators with at most one member per NVLink
  /// domain.
  struct Rings {
    bool apart = true;             ///< true if every communicator has at most one member per domain
    std::vector<RingEdges> edges;  ///< edges of each communicator's ring
    /// Communicator and index in it, by replica and member.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> spots;
  };

  /// Returns the GPU of a rank.
  GpuId gpu(std::uint32_t replica, std::uint32_t stage, std::uint32_t member) const {
    return placement_[graph_.rank(replica, stage, member).value];
  }
  /// Adds a flow with these links and returns its number.
  std::uint32_t add(std::vector<LinkLoad> links);
  /// Adds a flow that is a changed flow of the larger job and returns its number.
  std::uint32_t add(std::uint32_t of_whole, Changes changes);
  /// Returns the replicas of the larger job that this job lacks.
  const std::vector<std::uint32_t>& lost_replicas();
  /// Appends the links of GPUs and NICs that the transfers of a replica cross, member by member.
  void append_transfer_links(std::uint32_t replica, std::vector<LinkId>& out) const;
  /// Returns the cached known flows for these numbers, or computes them.
  const KnownFlows& all_known(const std::vector<std::uint32_t>& flows);

  /// Returns the cached transfer between two stages, or computes it.
  const Transfer& between(std::uint32_t from, std::uint32_t to, bool back);
  /// Returns the flow of the larger job's transfer less the flows of the lost replicas.
  std::uint32_t transfer_of_fewer(std::uint32_t from, std::uint32_t to, bool back);
  /// Returns the cached rings of a stage, or computes them.
  const Rings& rings(std::uint32_t stage, Communicator which);
  /// Returns the GPUs of all communicators of a stage.
  std::vector<GpuGroup> groups_of_all(std::uint32_t stage, Communicator which) const;
  /// Returns the link loads of one flow per edge.
  std::vector<LinkLoad> links_of(const std::vector<std::pair<GpuId, GpuId>>& edges);
  /// Derives a ring collective from the larger job's rings: the neighbours of a lost replica become
  /// neighbours. Returns false if NVLink domains have several members, because all rings may change
  /// then.
  bool rings_of_fewer(std::uint32_t stage, Communicator which, CollectiveKind kind,
                      std::vector<Phase>& phases);

  const Cluster& cluster_;
  const StepGraph& graph_;
  const CostProfile& profile_;
  const std::vector<GpuId>& placement_;
  const Whole whole_;
  const std::unique_ptr<FlowCounter> own_counter_;
  FlowCounter& counter_;
  std::vector<std::uint32_t> shapes_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, Transfer> transfers_;
  std::map<Place, std::vector<GpuGroup>> groups_;
  std::map<Place, std::uint32_t> domains_;
  std::map<Place, Rings> rings_;
  std::map<std::tuple<Place, CollectiveKind, CollectiveAlgorithm>, std::vector<Phase>>
      collectives_;
  std::map<std::tuple<Place, CollectiveKind, double>, CollectiveAlgorithm> fastest_;
  std::map<std::vector<std::uint32_t>, KnownFlows> known_;
  std::map<std::vector<std::uint32_t>, std::vector<std::uint32_t>> traffic_shapes_;
  /// Replicas of the larger job that are missing here.
  std::optional<std::vector<std::uint32_t>> lost_;
};

/// Returns the kind of a program's collective. Throws an internal Error for `none`.
CollectiveKind kind_of(OpCollective collective);
/// Returns the number of pairs of neighbouring stages; with chunks the last and the first stage are
/// neighbours too.
std::uint32_t stage_borders(const StepGraph& graph);
/// Returns the kind of path between two GPUs: 0 inside an NVLink domain, else 1, plus 1 if the
/// rails differ, plus 2 if the scalable units differ.
std::uint8_t crossing(const Cluster& cluster, GpuId from, GpuId to);
/// Returns a shape number by replica: equal numbers where each member's path from stage to stage is
/// of the same kind.
std::vector<std::uint32_t> replica_shapes(const Cluster& cluster, const StepGraph& graph,
                                          const std::vector<GpuId>& placement);

}  // namespace orrery::estimates
