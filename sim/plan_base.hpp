// What all plans of a job have in common: where its replicas' stages stand to each other, and which
// links the transfers and the collectives of all replicas together cross. Found on first use and
// kept, so that another plan costs what differs in it (a straggler, a lost replica, other shares of
// the micro-batches) and not all of the job's ranks. Made by sim/stepper, used by sim/plan; without
// it a plan is the same. One thread. Seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/binding_links.hpp"
#include "sim/collectives.hpp"
#include "sim/cost_model.hpp"
#include "sim/flow_counter.hpp"
#include "topologies/cluster.hpp"
#include "traces/step_graph.hpp"

namespace orrery {

class PlanBase {
 public:
  /// All outlive this.
  PlanBase(const Cluster& cluster, const StepGraph& graph, const CostProfile& profile,
           const std::vector<GpuId>& placement);

  /// By replica: equal where each member's way from stage to stage is of the same kind.
  const std::vector<std::uint32_t>& shapes();
  FlowCounter& counter() { return counter_; }

  /// The links of a flow of all replicas, by its number.
  const std::vector<LinkLoad>& links(std::uint32_t flow) const { return *flows_[flow]; }
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

  /// Of these flows, where no link has a fault.
  const KnownFlows& known(const std::vector<std::uint32_t>& flows);

 private:
  using Place = std::pair<std::uint32_t, Communicator>;
  GpuId gpu(std::uint32_t replica, std::uint32_t stage, std::uint32_t member) const {
    return placement_[graph_.rank(replica, stage, member).value];
  }
  std::uint32_t add(std::vector<LinkLoad> links);

  struct Transfer {
    std::uint32_t flow = 0;
    std::vector<Seconds> latency;  ///< by replica: of its longest way
  };
  const Transfer& between(std::uint32_t from, std::uint32_t to, bool back);

  const Cluster& cluster_;
  const StepGraph& graph_;
  const CostProfile& profile_;
  const std::vector<GpuId>& placement_;
  FlowCounter counter_;
  std::vector<std::uint32_t> shapes_;
  std::vector<std::unique_ptr<std::vector<LinkLoad>>> flows_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, Transfer> transfers_;
  std::map<Place, std::vector<GpuGroup>> groups_;
  std::map<std::tuple<Place, CollectiveKind, CollectiveAlgorithm>, std::vector<Phase>>
      collectives_;
  std::map<std::tuple<Place, CollectiveKind, double>, CollectiveAlgorithm> fastest_;
  std::map<std::vector<std::uint32_t>, KnownFlows> known_;
};

/// What kind of way it is from one GPU to another.
std::uint8_t crossing(const Cluster& cluster, GpuId from, GpuId to);
/// By replica: equal numbers where each member's way from stage to stage is of the same kind.
std::vector<std::uint32_t> replica_shapes(const Cluster& cluster, const StepGraph& graph,
                                          const std::vector<GpuId>& placement);

}  // namespace orrery
