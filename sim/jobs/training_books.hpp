// Metrics of a training job from its first start on: committed steps, the use of its GPUs between
// them, the codes of its gradients, begin and end. Called by a training run; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/compression/codec_uses.hpp"
#include "policies/record/past.hpp"
#include "sim/jobs/accounts.hpp"
#include "sim/jobs/fit_cache.hpp"
#include "sim/jobs/job_in_world.hpp"
#include "sim/jobs/next_step.hpp"

namespace orrery::sim {

/// Metrics of one training job.
class TrainingBooks {
 public:
  /// Constructs empty metrics; the arguments must outlive them.
  TrainingBooks(const JobInWorld& here, const FitCache& fits);

  /// Records the first start, at the placement in the fits, and discards earlier metrics.
  void begin(Nanos now);
  /// Continues at the end of `past`, which has been shown: adds its steps, and sets the start to 0.
  /// `over`: the job has ended by then; its end is set to 0.
  void continue_from(const Past& past, bool over);
  /// Records the end, and books all time up to `now`: no step follows.
  void end(Nanos now);
  /// Returns true if the job has started.
  bool has_started() const { return started_.has_value(); }
  /// Returns true if the job has ended.
  bool is_over() const { return ended_.has_value(); }

  /// Adds `count` steps of `duration` each, under `circumstances`; `stretch`: see PlayedStep.
  void commit_steps(const estimates::SimulatedStep& each, Nanos duration, std::uint64_t count,
              const NextStep::Circumstances& circumstances, const std::vector<double>& stretch);
  /// Sets the instant of the newest commit.
  void committed_by(Nanos now) { last_commit_ = now; }
  /// Returns the instant of the newest commit; 0 before the first.
  Nanos last_commit() const { return last_commit_; }
  /// Records that the job's next step is `next` at `now`.
  void record_progress(Step next, Nanos now);
  /// Returns the instant of the newest commit of a step that had never been committed before; the
  /// start if there is none.
  Nanos last_progress() const { return last_progress_; }
  /// Returns the instant of the first start; 0 if the job has not started.
  Nanos started() const { return started_.value_or(0); }
  /// Records a rollback: the job continues with step `to`; `from` would have been its next step.
  void roll_back(Step from, Step to) { accounts_->roll_back(from, to); }
  /// Records that the given step, or `micro_batches` micro-batches, will be repeated.
  void discard_work(const estimates::SimulatedStep& what) { accounts_->discard_work(what); }
  void discard_work(std::uint64_t micro_batches) { accounts_->discard_work(micro_batches); }
  /// Returns the number of committed steps, without steps that were rolled back.
  std::uint64_t steps() const { return accounts_->steps(); }
  /// Returns the ledger of the time between committed steps.
  TimeLedger& time() { return accounts_->time(); }

  /// Writes the metrics of the run, from the first start to the newest commit; may simulate a step
  /// for the goodput. Call once for each report, whose lists grow.
  void fill(Report& report) const;
  /// Writes the number of faults by cause, up to `step` at `now`.
  void fill_faults(const estimates::FaultPlan& faults, Step step, Nanos now, Report& report) const;
  /// Writes begin, end and step times of the job; nothing if the job has not started. `failed`: the
  /// job did not do all steps, because of `cause`; ignored before the end.
  void fill(JobOutcome& outcome, bool failed, const std::string& cause) const;

 private:
  double step_alone() const;
  void fill_memory(Report& report) const;

  const JobInWorld& here_;
  const FitCache& fits_;
  std::optional<Accounts> accounts_;  ///< set at the first start
  CodecUses codes_;
  std::optional<Nanos> started_, ended_;
  Nanos last_commit_ = 0, last_progress_ = 0;
  Step furthest_ = 0;
};

}  // namespace orrery::sim
