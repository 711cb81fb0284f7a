// Conversion of a published training run, a row of a table, to a job on a cluster in the scenario
// schema, with documented defaults for missing values. Called by `orrery predict`. Thread-safe:
// pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topologies/topology.pb.h"
#include "traces/published/published_table.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Job and cluster of a row, with the assumptions that the row needed.
struct PublishedRun {
  Job job;           ///< model resolved, with defaults
  Topology cluster;  ///< resolved
  std::vector<std::string> assumed;  ///< for example "recompute none", in the order of the columns
  /// True if the row's recomputation is an assumption: if memory does not suffice, the run may have
  /// recomputed more.
  bool recompute_open = false;
  /// Bytes of the loss for each logit, if the row states its loss: job.software is then the row's
  /// stack with these bytes.
  std::optional<double> logit_bytes;
  std::string refusal;  ///< reason why the row cannot be priced; then nothing else is valid
};

/// Returns the run of a row. Every problem of a row is a refusal, never an exception.
PublishedRun published_run(const TableRow& row);

/// Replaces the software stack of a run; a loss that the row states stays.
void use_stack(const SoftwareStack& stack, PublishedRun& run);

/// Returns the run as a scenario of two steps for `orrery simulate`. The run must not be refused.
Scenario scenario_of(const PublishedRun& run, const std::string& name);

}  // namespace orrery
