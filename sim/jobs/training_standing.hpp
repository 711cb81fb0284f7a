// Placement state of one training job: running, waiting, lost ranks, pending assignment. The job
// starts on its GPUs, loses ranks, which the remaining ranks detect, continues without them or
// stops, and is assigned other GPUs, to which it moves between two steps. Driven by a training run;
// one thread. Nanoseconds of the policy clock.
#pragma once

#include <optional>
#include <vector>

#include "sim/jobs/checkpoint_writer.hpp"
#include "sim/jobs/fit_cache.hpp"
#include "sim/jobs/job_faults.hpp"
#include "sim/jobs/job_in_world.hpp"
#include "sim/jobs/losses.hpp"
#include "sim/jobs/next_step.hpp"
#include "sim/jobs/sim_timeline.hpp"
#include "sim/jobs/step_sequence.hpp"
#include "sim/jobs/training_books.hpp"

namespace orrery::sim {

/// Placement state of one job.
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
  explicit TrainingStanding(const Parts& parts) : parts_(parts) {}

  /// Places the job on its first GPUs, begins its accounting and emits `start`; later growth is
  /// limited to these GPUs.
  void place_initially(const JobStarted& start);
  /// Continues with the placement in the world, at the end of a log.
  void continue_from_world();
  /// Stalls the job until `at`, for `use`: no step begins before.
  void stall_until(Nanos at, GpuUse use);
  /// Stalls the job for `by` beyond its current stall.
  void stall_for(Nanos by) { stall_until(std::max(now(), resume_at_) + by, GpuUse::recovery); }

  /// Returns true if the job runs and is not stalled, so that between two steps the next step can
  /// begin.
  bool can_begin_step() const;
  /// Returns the instant at which the pending assignment is ready; kNever if none is pending.
  Nanos next_change() const { return transition_ ? transition_->ready : kNever; }
  /// Returns the next instant with a change of the placement state: the end of a stall, a ready
  /// assignment, the suspicion or detection of a loss, or a fault while the job is idle; kNever if
  /// none follows.
  Nanos next_event_time() const;
  /// Activates the pending assignment if it is ready and the job is not stalled; call only between
  /// two steps. If a GPU of the assignment is lost, waits for the next change of the cluster, or,
  /// if none follows or the job is on hold, drops the assignment and emits JobHeld for a job with
  /// GPUs.
  void change_between_steps();
  /// Applies the faults of this instant between two steps: records lost ranks and schedules reports
  /// of lost parts. Does nothing during a step, before the start and after the end of the job.
  void apply_faults_between_steps();
  /// Returns true if the job loses ranks but has committed no new step for so long that it will
  /// never end.
  bool is_given_up() const;
  /// Emits RanksSuspected if the list has changed. For losses that are detected by now, emits
  /// RanksLost, expires the deferred settings, fails the checkpoint in flight, and then emits
  /// JobHeld or continues with the remaining ranks.
  void notice_losses();
  /// Drops the current step, which will not be committed: records the lost ranks, or stalls the job
  /// until its network is up again. Returns false if the network never is: the caller must end the
  /// job.
  bool cut_step(const estimates::PlayedStep& played);

  /// Accepts an assignment, which change_between_steps() activates; replaces a pending one. Drops
  /// the current step if working ranks are given up.
  void assign_gpus(const Assign& assign);
  /// Takes the job off its GPUs, to wait for another assignment. Drops the current step, the
  /// checkpoint in flight, a pending assignment and undetected losses, and rolls back to the newest
  /// checkpoint. Emits JobStopped and rejects the deferred decisions on the job.
  void release_gpus();

 private:
  /// Assignment that is not active yet.
  struct Transition {
    Standing where;
    StateFrom state{};
    Nanos ready = 0;
  };

  Nanos now() const { return parts_.steps.now(); }
  const JobInfo& job() const { return parts_.here.job(); }
  const Survival& survival() const { return parts_.here.scenario().survival(); }
  bool is_idle() const;
  std::optional<Nanos> next_idle_event() const;
  /// Returns the last instant of failures and repairs that a job which does not work waits for.
  Nanos end_of_patience() const;
  void lose_ranks(const std::vector<estimates::FatalFault>& lost);
  void hold_job();
  void fail_saving();
  Nanos ready_for(const Assign& assign) const;
  void activate_assignment(const Transition& transition);
  void refit_job();

  const Parts parts_;
  Nanos resume_at_ = 0;  ///< no step begins before: the ranks regroup
  std::optional<Transition> transition_;
};

}  // namespace orrery::sim
