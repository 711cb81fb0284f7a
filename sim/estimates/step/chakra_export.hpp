// A job's step graph as a Chakra execution trace that other simulators can read: one file per rank.
// Computation is a node with the time that the cost model gives it (collectives inside a block
// included) and its operations and bytes; transfers between stages and the collectives of gradients
// and parameters are nodes of their own. Called by `orrery export`; needs no engine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topologies/cluster.hpp"
#include "traces/chakra.pb.h"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

class ChakraExport {
 public:
  /// `graph` outlives this; `micro_batches` by replica. Rank r stands on GPU r.
  ChakraExport(StepGraph& graph, const Cluster& cluster,
               std::vector<std::uint32_t> micro_batches);

  std::uint32_t ranks() const { return graph_.ranks(); }
  /// The bytes of one rank's file. Ranks in any order.
  std::string rank_file(RankId rank);
  /// Communicators of all ranks asked for so far: {"1": [0, 8], ...}.
  std::string groups_file() const;

 private:
  using Nodes = std::vector<ChakraProtoMsg::Node>;
  const Nodes& nodes(const Program& program);
  std::string group_name(Communicator which, RankId rank);

  StepGraph& graph_;
  std::vector<double> seconds_;  ///< by block
  std::vector<std::uint32_t> micro_batches_;  ///< by replica
  std::map<const Program*, Nodes> programs_;  ///< without what differs between ranks
  std::map<std::vector<std::uint32_t>, std::uint32_t> groups_;
};

/// Writes PREFIX.0.et ... and PREFIX.json. Throws an environment Error that names the file which
/// cannot be written.
void export_chakra(ChakraExport& from, const std::string& prefix);

}  // namespace orrery::estimates
