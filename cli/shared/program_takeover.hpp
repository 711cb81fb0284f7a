// Takeover of a program whose `orrery run` was killed: the record that each `orrery run` leaves in
// its folder (live/run/files/run_files.hpp), and the start of a successor from it. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/shared/live_runs.hpp"
#include "live/programs/taken_run.hpp"

namespace orrery::cli {

/// Record of a run for its successor.
struct SavedRun {
  std::string folder;                  ///< folder of the run's status
  std::vector<std::string> arguments;  ///< command line of `orrery run`, with the program's name
  std::string directory;               ///< working directory
  std::string snapshots;               ///< folder of the snapshots that end with the run
  double began_s = 0;                  ///< begin of the run on the monotonic clock
  bool weighs = true;                  ///< result of --prove
  std::map<std::string, std::string> attempt = {};  ///< attempt_environment()
  live::RunRemains remains;
};

/// Record of this process's run. Holds the lock by which other commands see that the run has an
/// `orrery run`, and of which two successors only one gets hold.
class RunRecord {
 public:
  /// Locks the folder of the run. Throws an environment Error if another process has the lock.
  explicit RunRecord(const std::string& folder);
  ~RunRecord();
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  /// Returns the record in the folder. Throws an environment Error if it cannot be read.
  SavedRun read_record() const;
  /// Writes the record if that is due: at each news of a rank, and once a second. Ignores a full
  /// disk: a successor then reads an older one.
  void write_record(const SavedRun& run);

 private:
  bool is_due(const live::RunRemains& remains) const;

  const std::string folder_;
  int lock_ = -1;
  live::RunRemains written_;
  double written_s_ = 0;
};

/// Returns the record of the run that this process starts, without its ranks.
SavedRun started_run(const std::string& folder, const std::string& snapshots);
/// Returns true if the run is one of `orrery run` and its process has ended: its ranks go on.
bool is_unwatched(const LiveRun& run);
/// Returns the command that takes over the run.
std::string takeover_command(const LiveRun& run);
/// Throws a usage Error with that command if the run is_unwatched(), because nobody obeys orders.
void require_watched(const LiveRun& run);

/// Replaces this process by a successor of the run's `orrery run`: the same command line, in the
/// environment and folder of its ranks. Throws a usage Error if the run has an `orrery run` or is
/// none, and an environment Error if it cannot be taken over.
[[noreturn]] void exec_successor(const std::string& name);
/// Locks the run that this process takes over, once; returns null if it starts one. Throws an
/// environment Error if another successor was faster.
std::unique_ptr<RunRecord> lock_taken_run();

}  // namespace orrery::cli
