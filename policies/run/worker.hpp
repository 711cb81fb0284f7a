// A run in a process of its own, from both ends. The worker side is the body of orrery-sim and
// orrery-live: it reads one RunRequest, builds a backend, drives, answers with a Report. The client
// side is what the command line and Python call.
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

/// A backend that can also say how the run went.
class RunBackend : public Backend {
 public:
  /// Called after the last next(); fills in what only this backend knows.
  virtual void fill(Report& report) = 0;
  /// Asked at every call whether the kill switch counts as on; `now`: whether it is. A backend that
  /// goes on with a run that another process began answers as it was told then.
  virtual bool halted(bool now) { return now; }
  /// In mode approve: that is asked, of whoever else may answer than the one who started the run.
  virtual void asked(const Decision& /*decision*/) {}
  /// What they have answered since the last call.
  virtual std::vector<Verdict> verdicts() { return {}; }
  /// The log as it is to be written; a live run's must not wait for a disk.
  virtual std::unique_ptr<LogFile> log_file(std::unique_ptr<LogFile> plain) { return plain; }
  /// The log cannot be written any more, because of `why`. True: the run goes on without; else that
  /// is its end.
  virtual bool goes_on_without_log(const std::string& /*why*/) { return false; }

  /// What is remembered on the way from the backend to the policies, theirs included, as bytes.
  struct Memory {
    /// Between two calls; nothing where it cannot be told at this instant.
    std::function<std::optional<std::string>()> save;
    /// Within begin(): goes on where save() was called.
    std::function<void(const std::string&)> load;
  };
  /// Called before begin(), where that can be remembered.
  virtual void remember_by(Memory /*memory*/) {}

  /// How a process goes on from an instant at which a run may become several (futures.hpp).
  struct GoingOn {
    std::optional<std::uint64_t> seed = {};  ///< of what is random after it; nothing: as before
    bool ask = false;                        ///< the policies, at the instant
  };
  /// `branch` is called once, before anything that happens at `at` or later. Throws bad_input
  /// where a run has no such instants.
  virtual void branch_at(Nanos at, std::function<GoingOn()> branch);
  /// Called before the first next(): shows what `past` tells, then goes on from there. Where it is
  /// to end `hand_over` is called, once; true: the policies are asked then. Throws bad_input where
  /// a run cannot.
  virtual void go_on_from(std::unique_ptr<Past> past, std::function<bool()> hand_over);
  /// The run is over at that instant. Throws bad_input where it cannot end before it is done.
  virtual void end_at(Nanos until);
};

/// What run_in_worker throws when `interrupted` said so.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorKind::environment, "interrupted") {}
};

/// What run_in_worker throws when the worker ended without saying how the run went.
class WorkerDied : public Error {
 public:
  explicit WorkerDied(std::string message) : Error(ErrorKind::internal, std::move(message)) {}
};

/// What this process uses from the moment it is made.
class HostMeter {
 public:
  HostMeter() : began_(std::chrono::steady_clock::now()) {}
  void fill(HostUse& host) const;

 private:
  std::chrono::steady_clock::time_point began_;
};

/// Whoever answers for a run while it lasts: says yes or no in mode approve, and may end the
/// policies' part in it. Called by the thread of run_in_worker, about ten times a second; no call
/// may block.
class Operator {
 public:
  virtual ~Operator() = default;
  virtual void ask(const ApprovalAsk& question) = 0;
  /// Answers since the last call.
  virtual std::vector<ApprovalVerdict> verdicts() = 0;
  /// True from some moment on: nothing is applied any more.
  virtual bool halted() = 0;
  /// A signal to be passed on to the run's process, once each; 0: none.
  virtual int signal() { return 0; }
};

using ProgressSink = std::function<void(const Progress&)>;
using BackendMaker = std::function<std::unique_ptr<RunBackend>(
    const RunRequest& request, const Cluster& cluster, const ProgressSink& progress)>;

/// Body of a worker's main(): serves one request on kChildDescriptor. Returns the exit code.
/// Progress is passed on at most five times a second and dropped while the client does not read.
/// `forked`: a good run ends with its report, without taking its memory apart page by page.
int serve_run(const std::string& mode, const BackendMaker& make_backend, bool forked = false);

/// Runs `program` (orrery-sim, orrery-live) on `request`. `policy`, if given, is asked in this
/// process instead of the scenario's, whose state and needs then come from here; what it throws
/// is thrown on. Throws what the worker reported, and WorkerDied, which says how, if the worker
/// died. `interrupted` is polled about ten times a second; true ends the run with
/// Interrupted. `operated`, if given, outlives the call. The report's `host` covers the worker
/// process and its start.
Report run_in_worker(const std::string& program, const RunRequest& request,
                     Policy* policy = nullptr, const ProgressSink& progress = {},
                     const std::function<bool()>& interrupted = {}, Operator* operated = nullptr);
/// The same in a fork of `server`'s program: a fraction of the start. Threads may share one.
Report run_in_worker(ForkServer& server, const RunRequest& request, Policy* policy = nullptr,
                     const ProgressSink& progress = {},
                     const std::function<bool()>& interrupted = {}, Operator* operated = nullptr);

/// The same for a request that has futures: how each of them ended. The `host` of `begun` covers
/// them all. `progress` counts futures once they have begun.
FuturesReport run_futures(const std::string& program, const RunRequest& request,
                          const ProgressSink& progress = {},
                          const std::function<bool()>& interrupted = {});

}  // namespace orrery
