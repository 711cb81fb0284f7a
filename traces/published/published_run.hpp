// A published training run as a job on a cluster: what a table's row says, in the words of the
// scenario schema, and documented defaults where it says nothing. Called by `orrery predict`.
// Thread-safe: pure functions.
#pragma once

#include <string>
#include <vector>

#include "topologies/topology.pb.h"
#include "traces/published/published_table.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

struct PublishedRun {
  Job job;           ///< model resolved, defaults filled in
  Topology cluster;  ///< resolved
  std::vector<std::string> assumed;  ///< "recompute none", in the order of the columns
  /// What is recomputed is not said: where memory would not do, it may have been more.
  bool recompute_open = false;
  std::string refusal;  ///< why it cannot be priced; then nothing else counts
};

/// What the row describes. Everything that is odd about one row is a refusal, never a throw.
PublishedRun published_run(const TableRow& row);

/// The run as a scenario that `orrery simulate` takes.
Scenario scenario_of(const PublishedRun& run, const std::string& name);

}  // namespace orrery
