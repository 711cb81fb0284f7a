// What all plans of a job have in common: where its replicas' stages stand to each other, and which
// links the transfers and the collectives of all replicas together cross. Found on first use and
// kept, so that another plan costs what differs in it (a straggler, other shares of the
// micro-batches) and not all of the job's ranks. After a loss those that are left have most of it
// in common with the job as it was: then it is found as the difference to that. Made by
// sim/estimates/step/stepper, used by sim/estimates/plan/plan; without it a plan is the same. One
// thread. Seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/estimates/collectives/ring_edges.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/flow_counter.hpp"
#include "sim/estimates/plan/binding_links.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

class PlanBase;

/// Another base of the same job, with more replicas; those of here stand there as well.
struct Whole {
  PlanBase* base = nullptr;  ///< null: there is none
  std::vector<std::uint32_t> kept = {};  ///< by replica: its number there, ascending
};

class PlanBase {
 public:
  /// All outlive this.
  PlanBase(const Cluster& cluster, const StepGraph& graph, const CostProfile& profile,
           const std::vector<GpuId>& placement, Whole whole = {});

  /// By replica: equal where each member's way from stage to stage is of the same kind.
  const std::vector<std::uint32_t>& shapes();
  FlowCounter& counter() { return counter_; }

  /// The links of a flow of all replicas, by its number.
  const std::vector<LinkLoad>& links(std::uint32_t flow);
  /// From a stage to one beside it, of all replicas and members. Of two stages each is both the
  /// next one and the one before: activations and gradients (`back`) are flows of their own.
  std::uint32_t transfer(std::uint32_t from, std::uint32_t to, bool back);
  /// The longest way of a transfer of `replicas`.
  Seconds latency(std::uint32_t from, std::uint32_t to, bool back,
                  const std::vector<std::uint32_t>& replicas);

  /// True if each of a stage's communicators has all replicas, so that all are alike in any plan.
  bool of_all(Communicator which) const;
  /// Those communicators, by their GPUs.
  const std::vector<GpuGroup>& groups(std::uint32_t stage, Communicator which);
  /// NVLink domains over which the first of them goes.
  std::uint32_t domains(std::uint32_t stage, Communicator which);
  struct Phase {
    std::uint32_t flow = 0;
    double share = 0;
    Seconds latency;
  };
  const std::vector<Phase>& collective(std::uint32_t stage, Communicator which,
                                       CollectiveKind kind, CollectiveAlgorithm algorithm);
  /// As choose_algorithm().
  CollectiveAlgorithm fastest(std::uint32_t stage, Communicator which, CollectiveKind kind,
                              Bytes size);

  /// Of these flows, where no link has a fault. `now`: how they differ from those that are known,
  /// in their order; empty: not at all.
  struct Known {
    const KnownFlows& flows;
    std::vector<const std::vector<KnownFlows::Change>*> now = {};
  };
  Known known(const std::vector<std::uint32_t>& flows);

 private:
  using Place = std::pair<std::uint32_t, Communicator>;
  using Changes = std::vector<KnownFlows::Change>;
  /// Its links, or what makes one of the whole job's flows this one.
  struct Flow {
    std::optional<std::vector<LinkLoad>> links;
    std::optional<std::uint32_t> of_whole;
    Changes changes = {};
  };
  struct Transfer {
    std::uint32_t flow = 0;
    std::vector<Seconds> latency;  ///< by replica: of its longest way
  };
  /// Communicators of all replicas that have at most one member in an NVLink domain, as rings.
  struct Rings {
    bool apart = true;             ///< they do
    std::vector<RingEdges> edges;  ///< by communicator
    /// By replica and member: which communicator, and which place in it.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> spots;
  };

  GpuId gpu(std::uint32_t replica, std::uint32_t stage, std::uint32_t member) const {
    return placement_[graph_.rank(replica, stage, member).value];
  }
  std::uint32_t add(std::vector<LinkLoad> links);
  std::uint32_t add(std::uint32_t of_whole, Changes changes);
  const std::vector<std::uint32_t>& lost();
  const KnownFlows& all_known(const std::vector<std::uint32_t>& flows);

  const Transfer& between(std::uint32_t from, std::uint32_t to, bool back);
  std::uint32_t transfer_of_fewer(std::uint32_t from, std::uint32_t to, bool back);
  const Rings& rings(std::uint32_t stage, Communicator which);
  std::vector<LinkLoad> links_of(const std::vector<std::pair<GpuId, GpuId>>& edges);
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
  std::optional<std::vector<std::uint32_t>> lost_;  ///< replicas of the whole job
};

/// What kind of way it is from one GPU to another.
std::uint8_t crossing(const Cluster& cluster, GpuId from, GpuId to);
/// By replica: equal numbers where each member's way from stage to stage is of the same kind.
std::vector<std::uint32_t> replica_shapes(const Cluster& cluster, const StepGraph& graph,
                                          const std::vector<GpuId>& placement);

}  // namespace orrery::estimates
