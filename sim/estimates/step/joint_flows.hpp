// Flows of several jobs that can slow each other: groups of jobs, with the links that their flows
// can fill together. Called by sim/contention/contention. Pure; thread-safe. Bytes per second.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/estimates/step/flow_graph.hpp"
#include "sim/estimates/step/joint_links.hpp"

namespace orrery::estimates {

/// Jobs that can slow each other, directly or through others, and the links on which they can. For
/// example, two jobs whose flows reach 50 GB/s each cannot slow each other on a link of 100 GB/s,
/// and are two groups without links.
struct FlowGroup {
  /// Job of the group.
  struct Lane {
    std::size_t job = 0;  ///< index of the job
    const FlowGraph* graph = nullptr;
    std::vector<double> rates;  ///< largest rate of a flow of each kind
  };
  /// Kind of flows that crosses a link.
  struct Crossing {
    std::uint32_t lane = 0, kind = 0;
    std::uint32_t times = 0;  ///< times that each flow crosses the link
    friend auto operator<=>(const Crossing&, const Crossing&) = default;
  };
  /// Link that can be full.
  struct Link {
    double bandwidth = 0;
    std::vector<Crossing> crossings;
    friend auto operator<=>(const Link&, const Link&) = default;
  };

  std::vector<Lane> lanes;
  std::vector<Link> links;
  /// Equal texts: the joint simulations are equal, lane by lane.
  std::string text;
};

/// Returns the groups of jobs whose plans have links in common (joint_links()); `graphs` are those
/// of the jobs' plans and must outlive the result. The order of the jobs does not matter, nor where
/// they are placed, except as far as it changes their plans and common links. A link is left out if
/// all flows that can be in progress at once, each at its largest rate, do not fill the link.
std::vector<FlowGroup> flow_groups(const std::vector<JobBeside>& jobs,
                                   const std::vector<const FlowGraph*>& graphs);

}  // namespace orrery::estimates
