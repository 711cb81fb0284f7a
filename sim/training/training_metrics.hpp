// Metrics of a training job from its first start on: committed steps, the use of its GPUs between
// them, the codes of its gradients, begin and end. Called by a training run; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/compression/codec_uses.hpp"
#include "policies/record/past.hpp"
#include "sim/training/fault_plan.hpp"
#include "sim/training/fitted_job.hpp"
#include "sim/training/run_metrics.hpp"
#include "sim/training/training_setup.hpp"
#include "sim/training/step_conditions.hpp"

namespace orrery::sim {

/// Metrics of one training job, a plain value.
class TrainingMetrics {
 public:
  /// Constructs empty metrics of a job that has not started, expected at the placement of `first`.
  TrainingMetrics(const TrainingSetup& setup, FittedJob& first);
  /// Constructs the metrics of a job at the end of `past`, all of whose observations must have been
  /// shown. The start is 0, last_commit() is the newest commit of the log, and last_progress() is
  /// the log's last instant. The log's steps have their durations only
  /// (RunMetrics::add_told_steps). GPU utilization and the ledger begin at the newest commit,
  /// because the log does not contain them. `over`: the job has ended in the log; its end is 0, so
  /// that is_over() is true.
  TrainingMetrics(const TrainingSetup& setup, FittedJob& first, const Past& past, bool over);

  /// Records the first start at `now`, at the placement of `first`. Discards steps and GPU time
  /// recorded before, begins the ledger at `now`, and sets last_progress() to `now`.
  void begin(const TrainingSetup& setup, FittedJob& first, Nanos now);
  /// Records the end at `now`, and books all time up to `now` (GpuTimeLedger::advance_to): no step
  /// follows.
  void end(Nanos now);
  /// Returns true if the job has started.
  bool has_started() const { return started_.has_value(); }
  /// Returns true if the job has ended.
  bool is_over() const { return ended_.has_value(); }

  /// Adds `count` committed steps of `duration` each, as RunMetrics::commit_steps(), and the codes
  /// of their gradients by `conditions` for `replicas` replicas; no codes if the scenario sums
  /// gradients reproducibly. Call committed_by() and record_progress() too. `batch`: micro-batches
  /// of a step. `stretch`: see PlayedStep.
  void commit_steps(const TrainingSetup& setup, const estimates::SimulatedStep& each,
                    Nanos duration, std::uint64_t count, const StepConditions& conditions,
                    std::uint32_t batch, std::uint32_t replicas,
                    const std::vector<double>& stretch);
  /// Sets the instant of the newest commit.
  void committed_by(Nanos now) { last_commit_ = now; }
  /// Returns the instant of the newest commit; 0 before the first.
  Nanos last_commit() const { return last_commit_; }
  /// Records that the job's next step is `next` at `now`: sets last_progress() to `now` if `next`
  /// is larger than in all earlier calls, otherwise does nothing.
  void record_progress(Step next, Nanos now);
  /// Returns the instant of the newest commit of a step that had never been committed before in
  /// this process; the start, or the end of the log that the job continues, if no step was
  /// committed; 0 before the start.
  Nanos last_progress() const { return last_progress_; }
  /// Returns the instant of the first start; 0 if the job has not started.
  Nanos started() const { return started_.value_or(0); }
  /// Records a rollback: the job continues with step `to`; `from` would have been its next step.
  /// The steps between them do not count in steps() any more, and their work becomes lost work
  /// (RunMetrics::roll_back).
  void roll_back(Step from, Step to) { run_.roll_back(from, to); }
  /// Records that the micro-batches that the given step has completed in all stages, or
  /// `micro_batches` micro-batches, will be computed again. Books no GPU time.
  void discard_work(const estimates::SimulatedStep& what) { run_.discard_work(what); }
  void discard_work(std::uint64_t micro_batches) { run_.discard_work(micro_batches); }
  /// Returns the number of committed steps, those of a continued log included, without steps that
  /// were rolled back; 0 before the start.
  std::uint64_t steps() const { return run_.steps(); }
  /// Returns the ledger of the time between committed steps.
  GpuTimeLedger& time() { return run_.time(); }
  const GpuTimeLedger& time() const { return run_.time(); }

  /// Writes the metrics of the run, from the first start to the newest commit: those of
  /// RunMetrics::fill(), codes, ranks of the first fit, simulated steps, memory, and warnings about
  /// memory. `simulated`: number of simulated steps. Simulates a step without faults for the
  /// goodput, unless no step is committed. Works before the start, too. Call once for each report,
  /// whose lists grow.
  void fill(const TrainingSetup& setup, FittedJob& first, std::uint64_t simulated,
            Report& report) const;
  /// Writes the number of faults that began up to `step` and `now`, and adds the counts by cause,
  /// of which faults of instants count from the start on (FaultPlan::append_fault_counts). Call
  /// once for each report, whose list of counts grows.
  void fill_faults(const FaultPlan& faults, Step step, Nanos now, Report& report) const;
  /// Writes begin, number of steps, and, where known, end and step times of the job; may simulate a
  /// step without faults. Writes nothing if the job has not started. `failed`: the job did not do
  /// all steps, because of `cause`; ignored before the end.
  void fill(FittedJob& first, bool failed, const std::string& cause, JobOutcome& outcome) const;

 private:
  RunMetrics run_;
  CodecUses codes_;
  std::optional<Nanos> started_, ended_;
  Nanos last_commit_ = 0, last_progress_ = 0;
  Step furthest_ = 0;

  /// Passes all members except the descriptions to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, TrainingMetrics& of) {
    archive(of.run_, of.codes_, of.started_, of.ended_, of.last_commit_, of.last_progress_,
            of.furthest_);
  }
};

}  // namespace orrery::sim
