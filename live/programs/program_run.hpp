// Run of a user's program as ranks of this machine: watches the processes, tells the survivors of a
// loss, keeps the store of their process groups. Used by `orrery run`. One thread; the ranks die
// with the thread that starts them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/process.hpp"
#include "live/programs/run_book.hpp"

namespace orrery::live {

/// Start of the process of one rank.
struct RankStart {
  std::size_t rank = 0;
  std::string store_path;
  bool is_replacement = false;  ///< the process joins the others at a step of theirs
};

/// Starts the process of one rank, with its socket and a process group of its own.
using RankStarter = std::function<ChildProcess(const RankStart& start)>;

/// Settings of a run. All functions must be set.
struct ProgramSettings {
  std::size_t ranks = 1;
  double heartbeat_limit_s = 2;  ///< longest silence of an attached rank, in seconds
  std::size_t replacements = 0;  ///< most processes that are started for lost ranks
  RankStarter start;
  std::function<void(const std::string& line)> print_line;  ///< shows a line to the user
  /// Returns the number of a signal that this process received since the last call; 0: none. The
  /// number is sent to all ranks; ranks that still run after 10 s, or at a second signal, are
  /// killed.
  std::function<int()> signal;
};

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
