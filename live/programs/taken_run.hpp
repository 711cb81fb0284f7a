// Remains of a run of a user's program whose `orrery run` was killed: its account, and the ranks
// that go on and answer a successor. Used by program_run. One thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "live/group/program_epoch.hpp"
#include "live/programs/rank_process.hpp"
#include "live/programs/run_book.hpp"

namespace orrery::live {

/// Account of a run for a successor of its `orrery run`, which may be a moment old.
struct RunRemains {
  std::string folder;            ///< folder of the sockets
  double begin_s = 0;            ///< begin of the attempt on the monotonic clock
  std::size_t attempt = 0;       ///< restarts before it
  std::size_t replacements = 0;  ///< processes that were started for lost ranks, in all attempts
  std::vector<pid_t> processes;  ///< ids by rank; 0: the rank has ended
  bool is_attached = true;       ///< all living ranks have a fault-tolerant group
  RunAccount account;
};

/// Rank that has answered a successor.
struct AnsweredRank {
  RankProcess process;
  std::uint64_t steps = 0;
  ProgramEpoch epoch;  ///< newest epoch that the rank has heard
};

/// Listens in the folder of the run until all ranks of `processes` that have not ended have
/// answered, for at most `patience_s`. Kills those that have not. A rank waits from its answer on
/// for its first message, an epoch, and trains meanwhile. Throws an environment Error if the socket
/// cannot listen or a process cannot be watched.
std::map<std::size_t, AnsweredRank> call_ranks(const std::string& folder,
                                               const std::vector<pid_t>& processes,
                                               double patience_s);
/// Returns the process of a rank that has ended while nobody waited for it; RankProcess::
/// exit_status() has the code that the rank has left.
RankProcess ended_rank(const std::string& folder, std::size_t rank);

}  // namespace orrery::live
