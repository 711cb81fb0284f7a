// Metrics of a live run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "live/control.pb.h"
#include "live/run/account/cpu_meter.hpp"
#include "live/run/account/ledger.hpp"
#include "live/run/account/run_statistics.hpp"
#include "live/run/files/journal.hpp"
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
/// wire, CPU time. The journal carries the metrics to a successor of the controller.
/// Single-threaded; used by the live backend.
class RunAccount {
 public:
  /// Starts at zero. `scenario` must outlive this object. `progress` receives the progress of the
  /// run; may be empty.
  explicit RunAccount(const Scenario& scenario, std::function<void(const Progress&)> progress = {});

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
  /// Records the commit of `step` at `now`. `reports`: of all ranks, by rank, with at least one
  /// prediction in all; the report of a rank that sent none is empty. `ranks`: number of ranks
  /// whose gradient was encoded by the rules of `settings`, those of the step. Does not call the
  /// progress callback.
  void record_commit(Step step, std::span<const StepReport> reports, const Settings& settings,
                     std::uint32_t ranks, Nanos now);
  /// Passes steps and elapsed time to the progress callback; no effect if the callback is empty.
  void send_progress() const;
  /// Records that the job gives up the steps from `kept` on and the work of step `next`, which is
  /// not committed. `kept` must not be above `next`.
  void roll_back(Step next, Step kept);
  /// Records that all work of `step`, which is not committed, is discarded and counts as recomputed
  /// once the step is committed.
  void record_discard(Step step) { ledger_.record_discard(step); }

  /// Returns the number of committed steps, without those given up.
  std::uint64_t steps() const { return statistics_.steps(); }
  /// Returns the number of sequences in those steps.
  std::uint64_t samples() const { return statistics_.samples(); }
  /// Returns the time of the newest commit in nanoseconds; 0 before the first.
  Nanos elapsed() const { return statistics_.elapsed(); }
  /// Returns the mean loss of the newest step, in nats per token; 0 before the first.
  double newest_loss() const { return statistics_.newest_loss(); }
  /// Returns the CPU time that the ranks have reported so far, divided by the time of the newest
  /// commit: after a complete run the average number of busy cores. Returns 0 before the first.
  double busy_cores() const;

  /// Writes the metrics into the report. Call once for each report: lists are appended.
  void fill(Report& report) const;
  /// Writes the statistics of the steps into a snapshot of the journal. RunState holds the
  /// counters.
  void save_to(JournalSnapshot& now) const;
  /// Writes the counters of CPU time and of micro-batches, and the sequences of the step, into a
  /// commit of the journal. Call after record_commit() of the step.
  void save_to(JournalCommit& commit) const;
  /// Restores the metrics of an earlier controller, except the bytes on the wire and their codes.
  /// Call before any other method.
  void restore_from(const Past& past);

 private:
  const Step steps_;                 ///< Number of steps of the whole run.
  const std::uint64_t micro_batch_;  ///< Sequences of a micro-batch.
  const std::function<void(const Progress&)> progress_;
  const bool coded_;  ///< True if gradients may be encoded.
  Ledger ledger_;
  RunStatistics statistics_;
  WireCount wire_;
  CpuMeter cpu_;
  std::uint64_t newest_samples_ = 0;  ///< Sequences of the newest committed step.
};

}  // namespace orrery::live
