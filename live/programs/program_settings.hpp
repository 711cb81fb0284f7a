// Settings of the run of a user's program: number of ranks, starter, limits.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "live/programs/rank_process.hpp"
#include "live/programs/taken_run.hpp"

namespace orrery::live {

/// Settings of a run. All functions must be set.
struct ProgramSettings {
  std::size_t ranks = 1;
  double heartbeat_limit_s = 2;    ///< longest silence of an attached rank, in seconds
  std::size_t replacements = 0;    ///< most processes that are started for lost ranks
  bool replaces_by_order = false;  ///< ProgramRun::order_replacement() decides, not the loss
  bool announces_groups = false;   ///< shows which operations the groups carry through a loss
  bool has_restarts = false;       ///< all ranks may start again after a loss that ends them
  std::shared_ptr<const RunRemains> remains;  ///< run to take over at the first start; null: none
  RankStarter start;
  std::function<void(const std::string& line)> print_line;  ///< shows a line to the user
  /// Returns the number of a signal that this process received since the last call; 0: none. The
  /// number is sent to all ranks; ranks that still run after 10 s, or at a second signal, are
  /// killed.
  std::function<int()> signal;
};

}  // namespace orrery::live
