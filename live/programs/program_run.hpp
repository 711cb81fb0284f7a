// Run of a user's program as ranks of this machine: watches the processes, tells the survivors of a
// loss, keeps the store of their process groups. Used by `orrery run`. One thread; the ranks die
// with the thread that starts them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/programs/program_settings.hpp"
#include "live/programs/run_book.hpp"

namespace orrery::live {

/// Result of a run that has ended.
struct ProgramOutcome {
  RunBook book;
  std::string refused;  ///< operation that ended the run; empty: none
  int signal = 0;       ///< signal to the run that ended it; 0: none
  double elapsed_s = 0;
  std::size_t replacements = 0;  ///< processes that were started for lost ranks
  /// Exit code of the run: that of an environment Error if an operation was refused, that of the
  /// lost rank if its loss ended the run, otherwise RunBook::exit_code().
  int exit_code = 0;
};

/// Starts all ranks and blocks until all have ended. An attached rank that is silent for longer
/// than heartbeat_limit_s is killed and lost. While RunBook::can_replace(), starts a new process
/// for a lost rank, one at a time, which joins the others between two steps. If an operation was
/// refused, or a rank was lost in a run without the fault-tolerant group, ends the other ranks:
/// SIGTERM, after 1 s SIGKILL. Throws an environment Error if a rank or the store cannot be
/// started, and the errors of the settings' functions; no process is left then.
ProgramOutcome run_program(const ProgramSettings& settings);

}  // namespace orrery::live
