// File of a policy's table of collectives for the NCCL tuner plugin of this process (live/nccl).
// Every rank writes its own file between two steps, so all change at the same call. Not thread-safe
// on one file.
#pragma once

#include <string>

#include "live/nccl/tuner_table.hpp"
#include "traces/workload/collective.hpp"

namespace orrery::live {

/// Returns the rules, valid from the first call on. Algorithms that NCCL lacks become `automatic`;
/// rules for several nodes are left out, because the plugin does not count nodes, and so are rules
/// for kinds of collectives that the plugin does not know.
TunerTable tuner_table_of(const CollectiveTable& table);

/// Replaces the file by rename, so that no reader sees half of it; does nothing if the file has
/// that table. Throws an environment Error if the file cannot be written.
void write_tuner_file(const std::string& path, const TunerTable& table);

}  // namespace orrery::live
