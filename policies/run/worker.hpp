// Run in a process of its own, seen from both ends. The worker's side is the body of orrery-sim and
// orrery-live: it reads one RunRequest, builds a backend, drives it and answers with a Report. The
// command line and Python call the client's side.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/record/past.hpp"
#include "policies/record/recorder.hpp"
#include "policies/seam/backend.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"

namespace orrery {

/// Backend that can also report the course of its run.
class RunBackend : public Backend {
 public:
  /// Writes the metrics that only this backend knows. Called after the last next().
  virtual void fill(Report& report) = 0;
  /// Returns true if the kill switch counts as on; called at every observation. `now`: true if it
  /// is on now. A backend that continues the run of another process returns the recorded answer.
  virtual bool is_halted(bool now) { return now; }
  /// Publishes a decision that needs approval (mode approve) to other operators than the one who
  /// started the run.
  virtual void on_approval_request(const Decision& /*decision*/) {}
  /// Returns the answers of those operators since the last call.
  virtual std::vector<Verdict> verdicts() { return {}; }
  /// Returns the file for the log; a live run's file must not wait for a disk.
  virtual std::unique_ptr<LogFile> log_file(std::unique_ptr<LogFile> plain) { return plain; }
  /// Called when the log cannot be written any more, because of `why`. Returns true if the run
  /// continues without a log; otherwise the run ends.
  virtual bool can_continue_without_log(const std::string& /*why*/) { return false; }

  /// Access to the state of everything between the backend and the policies, policies included, as
  /// bytes.
  struct Memory {
    /// Returns the state between two calls; nothing if it cannot be saved at this instant.
    std::function<std::optional<std::string>()> save;
    /// Restores the state within begin(): the run continues where save() was called.
    std::function<void(const std::string&)> load;
  };
  /// Passes the access to that state. Called before begin(), if the state can be saved.
  virtual void remember_by(Memory /*memory*/) {}

  /// Conditions under which a process continues from an instant at which a run may fork
  /// (futures.hpp).
  struct GoingOn {
    std::optional<std::uint64_t> seed = {};  ///< seed of later randomness; nothing: unchanged
    bool ask = false;                        ///< true: the policies are called at the instant
  };
  /// Sets an instant at which the run may fork: `branch` is called once, before anything that
  /// happens at `at` or later. Throws bad_input if the run has no such instants.
  virtual void branch_at(Nanos at, std::function<GoingOn()> branch);
  /// Shows the recorded observations of `past` and continues from their end. Called before the
  /// first next(). `hand_over` is called once at the end; if it returns true, the policies are
  /// called then. Throws bad_input if the run cannot continue from a log.
  virtual void continue_from(std::unique_ptr<Past> past, std::function<bool()> hand_over);
  /// Ends the run at the instant `until`. Throws bad_input if the run cannot end before its work is
  /// done.
  virtual void end_at(Nanos until);
};

/// Error of run_in_worker() after `interrupted` returned true.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorKind::environment, "interrupted") {}
};

/// Error of run_in_worker() if the worker ended without a result.
class WorkerDied : public Error {
 public:
  explicit WorkerDied(std::string message) : Error(ErrorKind::internal, std::move(message)) {}
};

/// Meter of the resources that this process uses from the construction of the meter on.
class HostMeter {
 public:
  HostMeter() : began_(std::chrono::steady_clock::now()) {}
  /// Writes the used resources.
  void fill(HostUse& host) const;

 private:
  std::chrono::steady_clock::time_point began_;
};

/// Person or program that supervises a run: approves decisions in mode approve, and may end the
/// policies' part in the run. Called by the thread of run_in_worker(), about ten times a second; no
/// call may block.
class Operator {
 public:
  virtual ~Operator() = default;
  /// Asks for the approval of a decision.
  virtual void request_approval(const ApprovalAsk& question) = 0;
  /// Returns the answers since the last call.
  virtual std::vector<ApprovalVerdict> verdicts() = 0;
  /// Returns true from the moment on at which no decision may be applied any more.
  virtual bool is_halted() = 0;
  /// Returns a signal for the run's process, each once; 0: none.
  virtual int signal() { return 0; }
};

using ProgressSink = std::function<void(const Progress&)>;
using BackendMaker = std::function<std::unique_ptr<RunBackend>(
    const RunRequest& request, const Cluster& cluster, const ProgressSink& progress)>;

/// Serves one request on kChildDescriptor; body of a worker's main(). Returns the exit code. Sends
/// progress at most five times a second and drops it while the client does not read. `forked`: a
/// successful run ends with its report, without freeing its memory page by page.
int serve_run(const std::string& mode, const BackendMaker& make_backend, bool forked = false);

/// Runs `program` (orrery-sim, orrery-live) on `request` and returns its report. `policy`, if
/// given, is called in this process instead of the scenario's policies; its state and needs then
/// come from here, and its exceptions are thrown on. Throws the errors that the worker reported,
/// and WorkerDied with the cause if the worker died. `interrupted` is polled about ten times a
/// second; true ends the run with Interrupted. `operated`, if given, must outlive the call. The
/// report's `host` covers the worker process and its start.
Report run_in_worker(const std::string& program, const RunRequest& request,
                     Policy* policy = nullptr, const ProgressSink& progress = {},
                     const std::function<bool()>& interrupted = {}, Operator* operated = nullptr);
/// Runs the request in a fork of `server`'s program, at a fraction of the start time. Several
/// threads may share one server.
Report run_in_worker(ForkServer& server, const RunRequest& request, Policy* policy = nullptr,
                     const ProgressSink& progress = {},
                     const std::function<bool()>& interrupted = {}, Operator* operated = nullptr);

/// Runs a request with futures and returns the result of each future. The `host` of `begun` covers
/// all of them. `progress` counts futures once they have begun.
FuturesReport run_futures(const std::string& program, const RunRequest& request,
                          const ProgressSink& progress = {},
                          const std::function<bool()>& interrupted = {});

}  // namespace orrery
