// NCCL's plugins for the ranks of a user's program under policies: tables of collectives (tuner)
// and times of collectives (profiler). Used by `orrery run`. One thread: the environment of this
// process, which the ranks inherit, changes.
#pragma once

#include <string>

namespace orrery::cli {

/// Files between `orrery run` and the plugins in the ranks.
struct NcclPlugins {
  std::string table = {};  ///< common table of collectives; those of plans and ranks are beside it
  std::string reports = {};  ///< socket for the reports of the ranks
  /// reason why the tuner plugin is not in the ranks, such as another one there; empty: it is
  std::string no_table = {};
};

/// Sets NCCL_TUNER_PLUGIN and NCCL_PROFILER_PLUGIN, unless the user has set them, and the variables
/// that both plugins read. `folder`: for their files. `wait_s`: longest wait of a rank without
/// PyTorch for the first table, in seconds.
NcclPlugins offer_nccl_plugins(const std::string& folder, double wait_s);

}  // namespace orrery::cli
