// Interfaces of the backend of a run in a worker process. Every world is a RunBackend, which has
// one method beside those of Backend. A world that runs in real time, has operators, survives its
// process or can fork implements the interface for this feature too; the worker (worker.hpp) finds
// it. All calls come from the thread that runs drive(). Instants (Nanos) are nanoseconds of the
// policy clock. For example, a simulated world is a RunBackend and a BranchingRun.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/handover/hand_over.hpp"
#include "policies/record/past.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/policy_meter.hpp"
#include "policies/seam/backend.hpp"
#include "traces/report.pb.h"

namespace orrery {

/// Backend that reports its run.
class RunBackend : public Backend {
 public:
  /// Writes the metrics that only this backend knows into the report. Called once, after the last
  /// next(), or after the run has forked.
  virtual void fill(Report& report) = 0;
};

/// Run that advances in real time by itself. Its policies decide in a thread of their own, and in
/// mode shadow the run does not wait for them.
class PacedRun {
 public:
  virtual ~PacedRun() = default;
  /// Advances the run until next() would return without waiting, for at most about 50 ms. Returns
  /// true if it would. Called after begin(), and between apply() and next(), repeatedly until the
  /// result is true.
  virtual bool advance_run() = 0;
  /// Gives the run access to the meter of the policies' calls, which outlives the run. Called
  /// before begin().
  virtual void watch_policies(const PolicyMeter& meter) = 0;
};

/// Run with operators other than the client that started the run.
class OperatedRun {
 public:
  virtual ~OperatedRun() = default;
  /// Attends to the operator while the run waits for its policies: obeys an order to end the run,
  /// and publishes the state of the run. Returns true if the run is to end. Called about twenty
  /// times a second.
  virtual bool attend_operator() = 0;
  /// Publishes a decision that needs approval (mode approve) to the operators.
  virtual void on_approval_request(const Decision& decision) = 0;
  /// Returns the answers of the operators since the last call, without blocking; empty if none
  /// arrived.
  virtual std::vector<Verdict> verdicts() = 0;
};

/// Run that survives its process and its log: a successor repeats the observations of the earlier
/// process to the policies, or restores their state, and continues the run.
class SurvivableRun {
 public:
  virtual ~SurvivableRun() = default;
  /// Functions that save and restore the state of everything between the backend and the policies,
  /// policies included, as bytes.
  struct Memory {
    /// Returns the state between two calls of the policies; nothing if the state cannot be saved at
    /// this instant.
    std::function<std::optional<std::string>()> save;
    /// Restores a saved state, so that the run continues where save() was called. Call within
    /// begin() only.
    /// `world`: the restored world of the run, which the policies see too.
    std::function<void(const std::string&, const World& world)> load;
    /// Shows the policies the world of a run that has followed other decisions than those that they
    /// made now. Call between two calls of the policies.
    std::function<void(const World&)> show_world;
  };
  /// Passes these functions to the run. Called before begin(), and only if the state of this run
  /// can be saved.
  virtual void remember_by(Memory memory) = 0;
  /// Returns the reason for which an earlier process of this run gave up the policies in the call
  /// on the newest observation; empty: it did not.
  virtual std::string given_up() = 0;
  /// Returns true if the kill switch counts as on: `now`, the state of the switch, or the answer of
  /// the earlier process whose observations are repeated. Called at every observation.
  virtual bool is_halted(bool now) = 0;
  /// Returns the file for the log, a decorator of `plain` that writes in the background: the run
  /// must not wait for a disk.
  virtual std::unique_ptr<LogFile> log_file(std::unique_ptr<LogFile> plain) = 0;
  /// Decides about a run whose log cannot be written any more because of the error `why`. Returns
  /// true if the run continues without a log; otherwise the run ends with the error.
  virtual bool can_continue_without_log(const std::string& why) = 0;
};

/// Run that can fork, continue from a log and end early. Call the methods before begin().
class BranchingRun {
 public:
  virtual ~BranchingRun() = default;
  /// Conditions under which a process continues after an instant at which a run may fork
  /// (futures.hpp): result of the function that branch_at() receives.
  struct Continuation {
    std::optional<std::uint64_t> seed = {};  ///< seed of later randomness; nothing: unchanged
    bool ask = false;                        ///< true: the policies are called at the instant
  };
  /// Sets the instant `at` at which the run may fork. The backend calls `branch` once, before
  /// anything that happens at `at` or later, and continues as its result says; not if all work is
  /// over before, but also if the run is to end before `at` by end_at() or because nothing follows.
  /// An exception of `branch` leaves next(). Throws bad_input if the run cannot fork.
  virtual void branch_at(Nanos at, std::function<Continuation()> branch) = 0;
  /// Makes the backend show the recorded observations of `past` first and then continue the
  /// recorded run. The backend calls `hand_over` once, at the end of the recorded observations, and
  /// calls the policies at that instant if the result is true. Throws bad_input if the run cannot
  /// continue from a log.
  virtual void continue_from(std::unique_ptr<Past> past, std::function<bool()> hand_over) = 0;
  /// Ends the run at the instant `until`, even if its work is not done.
  virtual void end_at(Nanos until) = 0;
};

/// Backend of a run, with the further interfaces that it implements; null where it implements none.
struct RunWorld {
  explicit RunWorld(std::unique_ptr<RunBackend> world)
      : backend(std::move(world)),
        paced(dynamic_cast<PacedRun*>(backend.get())),
        operated(dynamic_cast<OperatedRun*>(backend.get())),
        survivable(dynamic_cast<SurvivableRun*>(backend.get())),
        branching(dynamic_cast<BranchingRun*>(backend.get())) {}

  const std::unique_ptr<RunBackend> backend;
  PacedRun* const paced;
  OperatedRun* const operated;
  SurvivableRun* const survivable;
  BranchingRun* const branching;
};

}  // namespace orrery
