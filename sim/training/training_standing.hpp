// Placement state of one training job: running, waiting, lost ranks, pending assignment. The job
// starts on its GPUs, loses ranks, which the remaining ranks detect, continues without them or
// stops, and is assigned other GPUs, to which it moves between two steps. Driven by a training run;
// one thread. Nanoseconds of the policy clock.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "sim/training/checkpoint_writer.hpp"
#include "sim/training/fit_cache.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/job_in_world.hpp"
#include "sim/training/losses.hpp"
#include "sim/training/next_step.hpp"
#include "sim/training/sim_timeline.hpp"
#include "sim/training/step_sequence.hpp"
#include "sim/training/training_books.hpp"

namespace orrery::sim {

/// Placement state of one job. Stalls, assignments and losses refer to the clock of the step
/// sequence (StepSequence::now). Call methods only between the job's submission and its end: most
/// throw an internal Error once the world has removed the job.
class TrainingStanding {
 public:
  /// References to collaborators; each must outlive this object.
  struct Parts {
    const JobInWorld& here;
    FitCache& fits;
    Losses& losses;
    JobFaults& faults;
    NextStep& next;
    TrainingBooks& books;
    CheckpointWriter& saving;
    StepSequence& steps;
    SimTimeline* timeline;  ///< null: no timeline
  };
  /// Constructs the state of a job that is not placed.
  explicit TrainingStanding(const Parts& parts) : parts_(parts) {}

  /// Places the job on its first GPUs, begins its accounting and emits `start`, which the world
  /// must accept (World::objection); if GPUs or layout differ from the expected ones, discards all
  /// fits and numbers the GPUs anew. Call once.
  void place_initially(const JobStarted& start);
  /// Continues with the placement in the world, at the end of a log: moves the job to the fit of
  /// its working replicas, if any, and makes a pending assignment of the world ready after the
  /// scenario's replacement time. GPUs that the job did not have at its begin get numbers with its
  /// next assignment: until then, faults of them kill no rank. Call once, instead of
  /// place_initially().
  void continue_from_world();
  /// Stalls the job until `at`, for `use`: no step begins before. Books the time up to now. An
  /// earlier stall that ends later stays.
  void stall_until(Nanos at, GpuUse use);
  /// Stalls the job for `by` beyond its current stall.
  void stall_for(Nanos by) { stall_until(std::max(now(), resume_at_) + by, GpuUse::recovery); }

  /// Returns true if the job's phase is `running` and the job is not stalled, so that between two
  /// steps the next step can begin. Does not check whether a step is in progress.
  bool can_begin_step() const;
  /// Returns the instant at which the pending assignment is ready; kNever if none is pending.
  Nanos next_change() const { return transition_ ? transition_->ready : kNever; }
  /// Returns the next instant with a change of the placement state: the end of a stall, a ready
  /// assignment, the suspicion or detection of a loss, or a begin or end of a fault while the job
  /// is stalled between steps or on hold; kNever if none follows. During a step, ends of stalls and
  /// assignments that are ready already do not count.
  Nanos next_event_time() const;
  /// Activates the pending assignment if it is ready and the job is not stalled; call only between
  /// two steps. Activation reports the committed steps, rolls back to the newest checkpoint if the
  /// assignment takes the state of a checkpoint, to step 0 if it gives a job with GPUs no state,
  /// emits JobStarted, expires the deferred settings, fits the job to the new GPUs, and stalls a
  /// job that had GPUs for the regroup time; a job with GPUs that does not keep the state of its
  /// ranks also drops the checkpoint in flight. If a GPU of the assignment is lost, makes the
  /// assignment ready at the next change of the cluster, or, if none follows or the job is on hold,
  /// drops the assignment and emits JobHeld for a job with GPUs.
  void change_between_steps();
  /// Applies the faults of this instant between two steps: schedules reports of parts that are lost
  /// or return, and, if the job is placed and waits, records lost ranks, which stall the job until
  /// their detection and the regroup time after it, spoil the checkpoint in flight, and take the
  /// job out of contention. A process of a restart that is lost on healthy hardware delays the
  /// restart instead. Emits nothing. Does nothing during a step, before the start and after
  /// the end of the job.
  void apply_faults_between_steps();
  /// Sets the warm spares anew after a change of parts that the world has applied.
  void on_parts_changed() { renew_spares(now() + survival().replacement()); }
  /// Returns true if an undetected loss exists, and the job has committed no new step for so long
  /// (sim::end_of_patience) that it will never end; false after the end of the job.
  bool is_given_up() const;
  /// Emits RanksSuspected if the list has changed. For losses that are detected by now, emits
  /// RanksLost, expires the deferred settings, fails the checkpoint in flight, makes the job's next
  /// assignment in the world, if the loss or an earlier decision has set one, ready the replacement
  /// time after the first loss, unless an assignment is pending here, and then emits JobHeld or
  /// moves the job to the fit of the remaining ranks. Does nothing if nothing is suspected or
  /// detected.
  void notice_losses();
  /// Handles a step that was cut short and that StepSequence has closed: counts its micro-batches
  /// as recomputed, and records the lost ranks (as apply_faults_between_steps()), or, if a link
  /// broke the step, stalls the job until the link is up again. If the link never is, returns false
  /// and only records the loss of the whole job: the caller must end the job.
  bool cut_step(const estimates::PlayedStep& played);

  /// Accepts an assignment, which change_between_steps() activates; replaces a pending one. The
  /// assignment is ready after the scenario's restart time (state from a checkpoint, or none for a
  /// placed job); for a placed job that takes other GPUs after the warm-join time, if a warm spare
  /// waits on each new GPU, or else the replacement time, less the detection time once any loss is
  /// recorded; at once in all other cases. Drops the current step if working ranks are given up. A
  /// restart of a running job also reports the committed steps, drops the checkpoint in flight, and
  /// emits JobHeld. Between two steps, books the wait as recovery once the job has started. Call
  /// with an accepted decision that is no release, and with no stretch in progress.
  void assign_gpus(const Assign& assign);
  /// Takes the job off its GPUs, to wait for another assignment. Drops the current step, the
  /// checkpoint in flight, a pending assignment and undetected losses, and rolls back to the newest
  /// checkpoint. Reports the committed steps, emits JobStopped, rejects the deferred decisions on
  /// the job, and leaves contention. Call for a placed job, with no stretch in progress.
  void release_gpus();

 private:
  /// Assignment that is not active yet.
  struct Transition {
    Standing where;
    StateFrom state{};
    Nanos ready = 0;
    bool restarts_running_job = false;  ///< the job is on hold for this assignment only
  };

  void delay_restart();
  Nanos now() const { return parts_.steps.now(); }
  const JobInfo& job() const { return parts_.here.job(); }
  const Survival& survival() const { return parts_.here.scenario().survival(); }
  bool is_idle() const;
  std::optional<Nanos> next_idle_event() const;
  /// Returns the last instant of failures and repairs that a job which does not work waits for.
  Nanos end_of_patience() const;
  void lose_ranks(const std::vector<FatalFault>& lost);
  void hold_job();
  void fail_saving();
  Nanos ready_for(const Assign& assign) const;
  void renew_spares(Nanos ready);
  void activate_assignment(const Transition& transition);
  void refit_job();

  const Parts parts_;
  Nanos resume_at_ = 0;  ///< no step begins before: the ranks regroup
  std::optional<Transition> transition_;
  std::map<GpuId, Nanos> warm_;  ///< GPUs with a warm spare, and the instants from which they wait
};

}  // namespace orrery::sim
