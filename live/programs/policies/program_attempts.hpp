// Attempts of a user's program: all ranks start, and start again after an attempt that a loss has
// ended. Used by program_backend and `orrery run`. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "live/programs/program_run.hpp"

namespace orrery::live {

/// Returns true if all ranks have to start again: nothing of the program is left, and nobody ended
/// it.
bool wants_restart(const ProgramOutcome& outcome);

/// Runs of one program, one after the other.
class ProgramAttempts {
 public:
  /// Starts nothing. `prepare`: called before each attempt with the number of earlier ones, except
  /// for one that is taken over (ProgramSettings::remains). `restarts` and
  /// ProgramSettings::replacements are limits of the whole run, also of its time before a takeover.
  ProgramAttempts(ProgramSettings settings, std::size_t restarts,
                  std::function<void(std::size_t)> prepare);

  /// Starts all ranks, or takes over those that run. Call while none runs. Throws as ProgramRun and
  /// `prepare`.
  void start(ProgramListener* listener);
  /// Advances the attempt, as ProgramRun::advance_run(). Returns false once it is over, and adds
  /// its outcome. Call only while one runs.
  bool advance_run(int wait_ms);
  /// Returns the attempt that runs; null if none does.
  ProgramRun* current() { return run_.get(); }
  const ProgramRun* current() const { return run_.get(); }
  /// Returns the account for a successor. Call only while an attempt runs.
  RunRemains remains() const;
  /// Returns true if the first attempt of this object is or was taken over.
  bool is_taken_over() const { return is_taken_over_; }
  /// Returns the outcomes of the attempts that are over, oldest first.
  const std::vector<ProgramOutcome>& outcomes() const { return outcomes_; }
  /// Returns true if the limit allows another attempt.
  bool can_restart() const { return begun_ <= restarts_; }
  /// Returns the processes that may still be started for lost ranks.
  std::size_t replacements_left() const;
  std::size_t ranks() const { return settings_.ranks; }
  double heartbeat_limit_s() const { return settings_.heartbeat_limit_s; }
  void print_line(const std::string& line) const { settings_.print_line(line); }

 private:
  ProgramSettings settings_;
  const std::size_t restarts_, replacements_;
  const std::function<void(std::size_t)> prepare_;
  std::size_t begun_ = 0;
  bool is_taken_over_ = false;
  std::unique_ptr<ProgramRun> run_;
  std::vector<ProgramOutcome> outcomes_;
};

}  // namespace orrery::live
