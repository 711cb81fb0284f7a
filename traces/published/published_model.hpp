// The model and the machine of a published run: names and shapes as tables write them, turned into
// the schema's. Used by published_run.cpp only. Thread-safe: pure functions.
#pragma once

#include <string>
#include <vector>

#include "topologies/topology.pb.h"
#include "traces/published/published_table.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Thrown while a row is read; its text is the refusal.
struct Refusal {
  std::string why;
};

/// Both resolved. What had to be assumed is appended to `assumed`. Throw Refusal.
Model published_model(const TableRow& row, std::vector<std::string>& assumed);
Topology published_cluster(const TableRow& row, std::vector<std::string>& assumed);

}  // namespace orrery
