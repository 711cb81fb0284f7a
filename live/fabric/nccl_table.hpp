// From a policy's table of collectives to the file that the NCCL tuner plugin of this process reads
// (live/nccl). Every rank writes its own file between two steps, so all change at the same call.
// Not thread-safe on one file.
#pragma once

#include <string>

#include "live/nccl/tuner_table.hpp"
#include "traces/training/collective.hpp"

namespace orrery::live {

/// The rules, from the first call on. Algorithms that NCCL does not have are `automatic`; rules for
/// several nodes are left out, as the plugin does not count nodes.
TunerTable tuner_table_of(const CollectiveTable& table);

/// Replaces the file by rename, so that no reader sees half of it; nothing if it holds that table.
/// Throws an environment Error.
void write_tuner_file(const std::string& path, const TunerTable& table);

}  // namespace orrery::live
