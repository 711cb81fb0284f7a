// Export of a job's step as a Chakra execution trace for other simulators. Called by `orrery
// export`; needs no engine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topologies/cluster.hpp"
#include "traces/chakra.pb.h"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Chakra execution trace of a job's step graph: one file per rank. A computation is a node with
/// the time of the cost model (collectives inside a block included) and its operations and bytes;
/// transfers between stages and collectives of gradients and parameters are nodes of their own. Not
/// thread-safe.
class ChakraExport {
 public:
  /// Prices the blocks. `graph` must outlive this object; `micro_batches` is by replica: throws an
  /// internal Error for another number of entries. Rank r is placed on GPU r: the cluster must have
  /// a GPU for each rank (not checked). Throws bad_input if the GPU lacks the job's precision.
  ChakraExport(StepGraph& graph, const Cluster& cluster,
               std::vector<std::uint32_t> micro_batches);

  /// Returns the number of ranks.
  std::uint32_t ranks() const { return graph_.ranks(); }
  /// Returns the bytes of the file of `rank`, below ranks(), and registers the rank's communicators
  /// for groups_file(). Ranks may come in any order, which determines the numbers of the
  /// communicators.
  std::string rank_file(RankId rank);
  /// Returns the communicators of all ranks requested so far as JSON: {"1": [0, 8], ...}.
  std::string groups_file() const;

 private:
  using Nodes = std::vector<ChakraProtoMsg::Node>;
  /// Returns the cached nodes of a program, without the attributes that differ between ranks.
  const Nodes& nodes(const Program& program);
  /// Returns the number of a rank's communicator as text; registers new communicators.
  std::string group_name(Communicator which, RankId rank);

  StepGraph& graph_;
  std::vector<double> seconds_;  ///< seconds by block
  std::vector<std::uint32_t> micro_batches_;  ///< micro-batches of each replica
  /// Nodes without attributes that differ between ranks.
  std::map<const Program*, Nodes> programs_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> groups_;
};

/// Writes PREFIX.0.et, PREFIX.1.et ... and PREFIX.json; replaces existing files. Throws an
/// environment Error with the name of a file that cannot be written.
void export_chakra(ChakraExport& from, const std::string& prefix);

}  // namespace orrery::estimates
