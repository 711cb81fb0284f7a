// What communication takes where ranks stand on a cluster's GPUs in order and nothing is faulty.
// Then everything repeats from scalable unit to scalable unit: a few of them show which links are
// fullest and how long ways are, whatever the size of the job. Used by
// sim/estimates/predict/estimate; sim/estimates/plan/plan looks at every rank and comes to the same
// (tests). One thread. Seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

class InOrder {
 public:
  /// Both outlive this. Throws bad_input if the cluster has too few GPUs.
  InOrder(const StepGraph& graph, const Cluster& cluster);

  /// As block_groups() of ranks placed in order.
  BlockGroups block_groups() const;

  /// Replicas whose ways from stage to stage are of different kinds.
  std::uint32_t classes() const { return classes_; }
  /// True if no communicator's members are told apart by those classes.
  bool all_alike() const;

  /// A flow of each rank of a class at once: what a byte of one takes, and its longest way.
  struct Way {
    double each = 0;
    Seconds latency;
  };
  Way transfer(const CostProfile& profile, std::uint32_t of_class, std::uint32_t from,
               std::uint32_t to);
  /// The rings of all communicators of a stage at once: flows carry one part of so many, a round
  /// takes `round` beside the bytes.
  struct Rings {
    double each = 0;
    std::uint32_t channels = 1;
    double round = 0;
  };
  Rings rings(const CostProfile& profile, std::uint32_t stage, Communicator which);

 private:
  /// Between two stages, by where their first ranks stand to the units and to each other.
  struct Border {
    std::uint32_t source = 0, target = 0;
    friend auto operator<=>(const Border&, const Border&) = default;
  };
  using Group = std::vector<GpuId>;
  std::uint32_t offset(std::uint32_t stage) const;
  /// From the first rank of a stage to the `place`-th one.
  std::uint32_t span(std::uint32_t place) const;
  std::uint32_t period(std::uint32_t gpus) const;
  std::uint32_t plane() const { return graph_.data() * graph_.members(); }
  Border border(std::uint32_t from, std::uint32_t to) const;
  std::uint32_t last_gpu() const;
  void find_classes();
  GroupShape shape_of(Communicator which) const;
  /// The first places of a stage that show what all of them do; of one communicator over all of
  /// them, those left out are `repeat` again, as often as they fit (0: none are left out).
  struct Shown {
    std::uint32_t places = 0, repeat = 0;
  };
  Shown shown(StepGraph::Lie lie) const;
  std::uint32_t domains_among(std::uint32_t stride, std::uint32_t end) const;
  double round_of(const Group& ring, std::uint32_t members, std::uint32_t repeat) const;
  std::vector<Group> groups(std::uint32_t stage, StepGraph::Lie lie, std::uint32_t places) const;

  const StepGraph& graph_;
  std::uint32_t unit_;              ///< GPUs after which everything repeats
  std::uint32_t replicas_;          ///< after which replicas stand to the units as the first ones
  Cluster cluster_;                 ///< as much of it as shows everything
  std::uint32_t classes_ = 1;
  std::vector<std::uint32_t> class_of_;  ///< by replica, up to replicas_
  std::map<std::pair<Border, std::uint32_t>, Way> transfers_;
  std::map<std::pair<std::uint32_t, Communicator>, Rings> rings_;
};

}  // namespace orrery::estimates
