// Communication costs of a job whose ranks are placed on a cluster's GPUs in order, without faults.
// Used by sim/estimates/predict/estimate. One thread. Seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "sim/estimates/collectives/flow_counter.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Communication costs for ranks placed in order. Such a placement repeats from scalable unit to
/// scalable unit, so that a few units show the fullest links and the longest paths: the computation
/// does not grow with the number of ranks, except on rings of nodes and with hashed routes.
/// sim/estimates/plan/plan looks at every rank and finds the same values (tests compare both).
/// Results are cached; not thread-safe.
///
/// For example, with units of 256 GPUs and replicas of 48 ranks, the placement repeats after
/// lcm(256, 48) = 768 GPUs, that is 16 replicas.
class InOrder {
 public:
  /// Prepares the classes of replicas. The graph must outlive this object; the cluster is copied as
  /// far as needed. Throws bad_input if the cluster has too few GPUs.
  InOrder(const StepGraph& graph, const Cluster& cluster);
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

  /// Returns the same as block_groups() of sim/estimates/prices/cost_model for ranks placed in
  /// order.
  BlockGroups block_groups() const;

  /// Returns the number of replica classes with different kinds of paths between stages.
  std::uint32_t classes() const { return classes_; }
  /// Returns true if there is one class, or if every communicator among replicas covers all of
  /// them, so that communicators are alike.
  bool all_alike() const;

  /// Cost of simultaneous transfers by all ranks of a class: seconds per byte of one transfer at
  /// the fullest link, and the longest latency.
  struct Way {
    /// Seconds per byte of one flow at the fullest link.
    double each = 0;
    Seconds latency;
  };
  /// Returns the cost of a transfer between two stages by all ranks of class `of_class`, the
  /// profile's transfer gap included. `of_class` must be below classes() (not checked). Throws an
  /// internal Error unless the stages are neighbours; the last and the first are. The result is
  /// cached without the profile: pass the same one always.
  Way transfer(const CostProfile& profile, std::uint32_t of_class, std::uint32_t from,
               std::uint32_t to);
  /// Rings of all communicators of a stage, active at once. A flow carries 1 / `channels` of its
  /// ring's data.
  struct Rings {
    double each = 0;
    std::uint32_t channels = 1;
    /// Seconds of one round beside the bytes.
    double round = 0;
  };
  /// Returns the cost of the rings of all communicators `which` of a stage: gradient, shard,
  /// replicate or expert_gradient (other kinds are not checked). The result is cached without the
  /// profile: pass the same one always.
  Rings rings(const CostProfile& profile, std::uint32_t stage, Communicator which);

 private:
  /// Positions of the first ranks of two stages, reduced to values that keep units and distances
  /// apart.
  struct Border {
    std::uint32_t source = 0, target = 0;
    friend auto operator<=>(const Border&, const Border&) = default;
  };
  using Group = std::vector<GpuId>;
  /// Returns the GPU of the first rank of a stage.
  std::uint32_t offset(std::uint32_t stage) const;
  /// Returns the distance in GPUs from the first rank of a stage to the rank at index `place`.
  std::uint32_t span(std::uint32_t place) const;
  /// Returns the number of places of a stage after which ranks lie in units of `gpus` GPUs as at
  /// first.
  std::uint32_t period(std::uint32_t gpus) const;
  /// Returns the number of ranks of a stage.
  std::uint32_t plane() const { return graph_.data() * graph_.members(); }
  /// Returns the reduced positions of two stages.
  Border border(std::uint32_t from, std::uint32_t to) const;
  /// Returns the highest GPU that any computation of this class looks at.
  std::uint32_t last_gpu() const;
  /// Returns the number of GPUs of a node, the first ones, whose flows show those of all: the GPUs
  /// of one rail if every stage has the same ranks on each rail and routes do not depend on rails.
  std::uint32_t locals_shown() const;
  /// Returns true if the rank at index `place` of a stage is on a GPU that shows others.
  bool is_shown(std::uint32_t place) const { return place % in_node_ < locals_; }
  /// Computes the replica classes of the first replicas_ replicas.
  void find_classes();
  /// Returns the shape of the communicator that is spread over most NVLink domains.
  GroupShape shape_of(Communicator which) const;
  /// First places of a stage that represent all of its places. If one communicator covers the
  /// stage, the places left out repeat in blocks of `repeat` places; 0 if no place is left out.
  struct Shown {
    std::uint32_t places = 0, repeat = 0;
  };
  /// Returns the places of a stage that suffice for communicators lying as `lie`.
  Shown shown_places(StepGraph::Lie lie) const;
  /// Returns the number of NVLink domains of the places 0, stride, 2 x stride, ... below `end`.
  std::uint32_t domains_among(std::uint32_t stride, std::uint32_t end) const;
  /// Returns the seconds of a round of one ring: the mean latency of its edges.
  double round_of(const Group& ring, std::uint32_t members, std::uint32_t repeat) const;
  /// Returns the communicators among the first `places` places of a stage, by their GPUs, without
  /// those that others show.
  std::vector<Group> groups(std::uint32_t stage, StepGraph::Lie lie, std::uint32_t places) const;

  const StepGraph& graph_;
  std::uint32_t unit_;              ///< GPUs after which the cluster repeats
  std::uint32_t replicas_;  ///< replicas after which ranks lie in units as the first ones do
  std::uint32_t in_node_, locals_;  ///< GPUs of a node, and those of them that show all
  Cluster cluster_;                 ///< smallest part of the cluster that shows everything
  std::optional<FlowCounter> counter_;  ///< scratch counter over cluster_, empty between calls
  std::uint32_t classes_ = 1;
  std::vector<std::uint32_t> class_of_;  ///< class of each replica, up to replicas_
  std::map<std::pair<Border, std::uint32_t>, Way> transfers_;
  std::map<std::pair<std::uint32_t, Communicator>, Rings> rings_;
};

}  // namespace orrery::estimates
