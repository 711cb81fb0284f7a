// What a training job adds up to from when it first stands: its committed steps and what its GPUs
// did between them, the codes of its gradients, when it began and ended. Told by a training run;
// one thread. Nanoseconds of the policy clock.
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

class TrainingBooks {
 public:
  /// Both outlive this.
  TrainingBooks(const JobInWorld& here, const FitCache& fits);

  /// It stands for the first time, as the fits say that it begins.
  void begin(Nanos now);
  /// It goes on where `past` ends, which has been told; `over`: it has ended by then.
  void go_on(const Past& past, bool over);
  /// No step will ever follow.
  void end(Nanos now);
  bool started() const { return started_.has_value(); }
  bool over() const { return ended_.has_value(); }

  /// `count` steps of `duration` each, under `circumstances`; `stretch`: as of PlayedStep.
  void commit(const estimates::SimulatedStep& each, Nanos duration, std::uint64_t count,
              const NextStep::Circumstances& circumstances, const std::vector<double>& stretch);
  /// All that has been committed was by `now`.
  void committed_by(Nanos now) { last_commit_ = now; }
  Nanos last_commit() const { return last_commit_; }
  /// The job goes on from `to`; `from` would have been its next step.
  void roll_back(Step from, Step to) { accounts_->roll_back(from, to); }
  /// The step `what`, or so many micro-batches, will be done again.
  void discard(const estimates::SimulatedStep& what) { accounts_->discard(what); }
  void discard(std::uint64_t micro_batches) { accounts_->discard(micro_batches); }
  std::uint64_t steps() const { return accounts_->steps(); }
  /// Where the time between committed steps goes is told there.
  TimeLedger& time() { return accounts_->time(); }

  void fill(Report& report) const;
  /// Faults by cause, up to `step` at `now`.
  void fill_faults(const estimates::FaultPlan& faults, Step step, Nanos now, Report& report) const;
  /// When it began and ended, and what its steps took; `failed`: of what, if it did not do all.
  void fill(JobOutcome& outcome, bool failed, const std::string& cause) const;

 private:
  double step_alone() const;
  void fill_memory(Report& report) const;

  const JobInWorld& here_;
  const FitCache& fits_;
  std::optional<Accounts> accounts_;  ///< from the beginning, wherever that was
  CodecUses codes_;
  std::optional<Nanos> started_, ended_;
  Nanos last_commit_ = 0;
};

}  // namespace orrery::sim
