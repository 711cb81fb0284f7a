// Conversion of the model and the machine of a published run from a table's names and shapes to the
// scenario schema. Used by published_run.cpp only. Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.pb.h"
#include "traces/published/published_table.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Exception of the readers of a row: the reason why the row cannot be priced.
struct Refusal {
  std::string why;
};

/// Returns the resolved model of a row; appends assumptions to `assumed`. Throws Refusal.
Model published_model(const TableRow& row, std::vector<std::string>& assumed);
/// Returns the catalogue's name of a GPU as tables write it ("B200-SXM" is "B200"); nothing if the
/// catalogue has no such GPU.
std::optional<std::string> catalogue_gpu(std::string_view named);
/// Returns the resolved cluster of a row; appends assumptions to `assumed`. Throws Refusal.
Topology published_cluster(const TableRow& row, std::vector<std::string>& assumed);

}  // namespace orrery
