// Metrics of a live run.
#pragma once

#include <cstdint>
#include <functional>

#include "live/control.pb.h"
#include "live/run/files/run_state.hpp"
#include "live/run/files/run_statistics.hpp"
#include "live/run/metrics/cpu_meter.hpp"
#include "live/run/metrics/ledger.hpp"
#include "live/training/wire_count.hpp"
#include "policies/seam/job.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Returns the number of micro-batches of a step, all ranks together: global batch / micro-batch,
/// rounded down; a micro-batch of 0 counts as 1.
std::uint32_t micro_batches_of(const Job& job);

/// Metrics of a live run that go into its report: committed steps, micro-batches, bytes on the
/// wire, CPU time. The statistics of the committed steps are in the run's state, to which each
/// commit in the journal adds a step. Single-threaded; used by the live backend.
class LiveMetrics {
 public:
  /// Starts with the counters in `state`, the state of the run; bytes on the wire start at zero.
  /// `scenario` and `state` must outlive this object. `progress` receives the progress of the run;
  /// may be empty.
  LiveMetrics(const Scenario& scenario, const RunState& state,
              std::function<void(const Progress&)> progress = {});

  /// Records that process `life` of `rank` has connected, so that its CPU time is counted from its
  /// next report on.
  void hello(std::uint32_t rank, std::uint32_t life) { cpu_.hello(rank, life); }
  /// Records the CPU time and the sent bytes that process `life` of a rank reports: its totals, not
  /// differences. The CPU time counts for the process of the newest hello(), whatever `life` is.
  void record_progress(std::uint32_t rank, std::uint32_t life, const ProgressSample& sample);
  /// Records `bytes`: all bytes that process `life` of `rank` has sent so far, not a difference.
  void record_sent_bytes(std::uint32_t rank, std::uint32_t life, std::uint64_t bytes) {
    wire_.record_sent_bytes(rank, life, bytes);
  }
  /// Records the micro-batches that a rank has executed in a step, committed or not. Call once for
  /// each report, before the commit. `discarded`: the step is repeated without them already.
  void record_executions(const StepReport& report, bool discarded = false);
  /// Records the commit of a step, and writes the counters of CPU time and of micro-batches and the
  /// sequences of the step into `commit`, which names the step. `ranks`: number of ranks whose
  /// gradient was encoded by the rules of `settings`, those of the step. steps() and the values
  /// below change once the state contains the commit. Does not call the progress callback.
  void record_commit(const Settings& settings, std::uint32_t ranks, JournalCommit& commit);
  /// Passes steps and elapsed time to the progress callback; no effect if the callback is empty.
  void send_progress() const;
  /// Records that all work of `step`, which is not committed, is discarded and counts as recomputed
  /// once the step is committed.
  void record_discard(Step step) { ledger_.record_discard(step); }

  /// Returns the number of committed steps, without those given up.
  std::uint64_t steps() const { return state_.statistics.steps(); }
  /// Returns the time of the newest commit in nanoseconds; 0 before the first.
  Nanos elapsed() const { return state_.statistics.last_commit(); }
  /// Returns the CPU time that the ranks have reported so far, divided by the time of the newest
  /// commit: after a complete run the average number of busy cores. Returns 0 before the first.
  double busy_cores() const;

  /// Writes the metrics into the report. Call once for each report: lists are appended.
  void fill(Report& report) const;

 private:
  const Scenario& scenario_;
  const RunState& state_;
  const std::function<void(const Progress&)> progress_;
  Ledger ledger_;
  WireCount wire_;
  CpuMeter cpu_;
};

}  // namespace orrery::live
