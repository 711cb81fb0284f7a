// A run in a process of its own, from both ends. The worker side is the body of orrery-sim and
// orrery-live: it reads one RunRequest, builds a backend, drives, answers with a Report. The client
// side is what the command line and Python call.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
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
};

using ProgressSink = std::function<void(const Progress&)>;
using BackendMaker = std::function<std::unique_ptr<RunBackend>(
    const RunRequest& request, const Cluster& cluster, const ProgressSink& progress)>;

/// Body of a worker's main(): serves one request on kChildDescriptor. Returns the exit code.
/// Progress is passed on at most five times a second and dropped while the client does not read.
int serve_run(const std::string& mode, const BackendMaker& make_backend);

/// Runs `program` (orrery-sim, orrery-live) on `request`. `policy`, if given, is asked in this
/// process instead of the scenario's, whose state and needs then come from here; what it throws
/// is thrown on. Throws what the worker reported, and WorkerDied, which says how, if the worker
/// died. `interrupted` is polled about ten times a second; true ends the run with
/// Interrupted. `operated`, if given, outlives the call. The report's `host` covers the worker
/// process and its start.
Report run_in_worker(const std::string& program, const RunRequest& request,
                     Policy* policy = nullptr, const ProgressSink& progress = {},
                     const std::function<bool()>& interrupted = {}, Operator* operated = nullptr);

}  // namespace orrery
