// Both ends of a run in a separate process. Worker: body of the programs orrery-sim and
// orrery-live, which reads one RunRequest, builds a backend, drives it and answers with a Report
// (worker.cpp). Client: functions that the command line and Python call (run_client.cpp). Instants
// (Nanos) are nanoseconds of the policy clock.
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
#include "policies/run/run_backend.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"

namespace orrery {

/// Error that run_in_worker() throws after `interrupted` returned true.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorKind::environment, "interrupted") {}
};

/// Error that run_in_worker() throws if the worker process ended without a result.
class WorkerDied : public Error {
 public:
  explicit WorkerDied(std::string message) : Error(ErrorKind::internal, std::move(message)) {}
};

/// Meter of the resources that this process uses: wall time since the construction of the meter,
/// CPU time and peak memory since the start of the process.
class HostMeter {
 public:
  HostMeter() : began_(std::chrono::steady_clock::now()) {}
  /// Writes wall time and CPU time so far in seconds and peak memory in bytes; may be called
  /// repeatedly.
  void fill(HostUse& host) const;

 private:
  std::chrono::steady_clock::time_point began_;
};

/// Person or program that supervises a run: approves decisions in mode approve, and can stop all
/// decisions of the policies. The thread of run_in_worker() calls the methods, about ten times a
/// second; no method but end_run() may block.
class Operator {
 public:
  virtual ~Operator() = default;
  /// Shows a decision that needs approval to the operator. The answer comes from verdicts().
  virtual void request_approval(const ApprovalAsk& question) = 0;
  /// Returns the answers since the last call.
  virtual std::vector<ApprovalVerdict> verdicts() = 0;
  /// Returns true once no decision may be applied any more. Cannot be revoked.
  virtual bool is_halted() = 0;
  /// Returns the number of a signal to send to the worker process; 0: none. Returns each signal
  /// once.
  virtual int signal() { return 0; }
  /// Drops the open questions of a run that has ended. Returns warnings for the report of the run.
  /// The only method that may block, for a few seconds.
  virtual std::vector<std::string> end_run() { return {}; }
};

/// Receiver of the progress of a run.
using ProgressSink = std::function<void(const Progress&)>;
/// Factory of the backend of a run; `cluster` outlives the backend.
using BackendMaker = std::function<std::unique_ptr<RunBackend>(
    const RunRequest& request, const Cluster& cluster, const ProgressSink& progress)>;

/// Serves one request on kChildDescriptor; body of a worker's main(). `mode`: name of the program's
/// mode in logs and reports. Blocks until the run ends. Returns the exit code: 0, or the kind of
/// the error, which is sent to the client and not thrown. Sends progress at most five times a
/// second, and drops progress while the client does not read. SIGUSR1 turns the kill switch on.
/// `forked`: after a successful run the process exits at once without freeing its memory, which it
/// shares with other processes.
int serve_run(const std::string& mode, const BackendMaker& make_backend, bool forked = false);

/// Runs `program` (orrery-sim or orrery-live) on `request` and returns its report. `policy`: if not
/// null, the policy that decides instead of the scenario's policies; it is started and called in
/// this process. Its exceptions leave this function; if the request falls back (hand_over), those
/// of observe() only disable the policy. `progress`: receives the progress of the run.
/// `interrupted`: polled about ten times a second, but not while `policy` decides; true ends the
/// run. `operated`: operator of the run; null only if no decision needs approval. The report's
/// `host` covers the worker process and its start. Blocks until the run ends. Throws the error that
/// the worker reported, Interrupted, WorkerDied with the cause, or an environment Error if the
/// program cannot be started; then removes the unfinished log.
Report run_in_worker(const std::string& program, const RunRequest& request,
                     Policy* policy = nullptr, const ProgressSink& progress = {},
                     const std::function<bool()>& interrupted = {}, Operator* operated = nullptr);
/// Runs the request in a fork of the program of `server`, which starts much faster than a new
/// process. Otherwise as above. Several threads may share one server.
Report run_in_worker(ForkServer& server, const RunRequest& request, Policy* policy = nullptr,
                     const ProgressSink& progress = {},
                     const std::function<bool()>& interrupted = {}, Operator* operated = nullptr);

/// Runs a request with futures and returns the result of each future, in order. The `host` of the
/// report `begun` covers all futures. `progress`: receives the progress of the run up to the fork,
/// then the number of ended futures. Throws as run_in_worker().
FuturesReport run_futures(const std::string& program, const RunRequest& request,
                          const ProgressSink& progress = {},
                          const std::function<bool()>& interrupted = {});

/// Returns the policies of one future, which decide in this process; null if those of the request
/// do, in the process of the run. `choice`: index of the future's choice; nothing: the run up to
/// the futures, or a future without choices. May change the request, which is that of this future.
using FuturePolicies =
    std::function<std::unique_ptr<Policy>(RunRequest& request, std::optional<int> choice)>;

/// Runs a request with futures whose policies `policies` makes. A process cannot fork policies
/// outside of it, so each future simulates the run from its beginning, one after the other; its
/// result is that of run_futures(). The futures are those from number `first` on, as many as the
/// request says, so that several processes can share the futures of one run. An error of the
/// policies is the failure of their future. `progress`: receives the number of ended futures.
/// Throws as run_in_worker() and `policies`.
FuturesReport run_outside_futures(const std::string& program, const RunRequest& request,
                                  const FuturePolicies& policies, const ProgressSink& progress = {},
                                  const std::function<bool()>& interrupted = {},
                                  std::uint32_t first = 0);

}  // namespace orrery
