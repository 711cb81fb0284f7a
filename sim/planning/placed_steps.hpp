// Prices of a job's steps on other nodes than its first ones: a spare in another scalable unit adds
// flows to links between switches, which two flows then share. Called by sim/planning/outcomes and
// by changes of a plan. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/planning/long_run.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Prices of the step of one job by its nodes. Placements are put into classes by the largest
/// number of flows that a link carries while each stage exchanges gradients in rings over its
/// nodes; the price of a class is the mean price of its first placements, without contention
/// between different exchanges. Owns copies of job and cluster; the first price of a class takes
/// milliseconds, each later one microseconds.
///
/// For example, on units of 32 nodes a ring over nodes 0 to 126 crosses each link once. With node
/// 127 in place of node 5, the ring passes from unit 0 to unit 3 and back; if a way back shares a
/// link with another flow of the ring, each has half of the link, and the exchange takes twice as
/// long.
class PlacedSteps {
 public:
  /// `job` must be resolved and fit on the first nodes of `cluster`. Throws as Stepper.
  PlacedSteps(const Job& job, const Cluster& cluster);
  PlacedSteps(const PlacedSteps&) = delete;
  PlacedSteps& operator=(const PlacedSteps&) = delete;

  /// Returns the duration of a step on these nodes, in the order of their ranks, over that on the
  /// first nodes.
  double slowdown(std::vector<std::uint32_t> nodes);

 private:
  /// Mean price of a class, in seconds.
  struct Class {
    double sum_s = 0;
    std::uint32_t priced = 0;
  };
  /// Returns the links between the first GPUs of two nodes, in the order of a route.
  const std::vector<LinkId>& route_of(std::uint32_t from, std::uint32_t to);
  /// Returns the largest number of flows of one link.
  std::uint32_t most_flows(const std::vector<std::uint32_t>& nodes);
  /// Returns the seconds of a step on these nodes.
  double step_on(const std::vector<std::uint32_t>& nodes);

  const Cluster cluster_;
  StepGraph graph_;
  /// Rings over nodes for each stage: indices into the list of the job's nodes.
  std::vector<std::vector<std::vector<std::uint32_t>>> rings_;
  std::map<std::uint32_t, Class> classes_;
  std::map<std::vector<std::uint32_t>, double> known_;  ///< factors of placements
  std::vector<std::uint32_t> flows_, touched_;          ///< scratch data of most_flows()
  /// Routes between any two nodes of a small cluster; the last one of a large cluster.
  std::vector<std::vector<LinkId>> routes_;
  double first_s_ = 0;
};

/// Returns the slowdown of a job by its nodes, or nothing where the nodes make no difference: no
/// spares, one scalable unit, or a fabric without links that flows of several nodes share.
Slowdown slowdown_of(const Job& job, const Cluster& cluster, std::uint32_t job_nodes);

}  // namespace orrery::sim
