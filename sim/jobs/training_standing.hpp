// Where a training job stands, and how that changes: it comes to its GPUs, loses ranks, which those
// that are left notice, goes on without them or stands still, and is assigned other GPUs, which it
// comes to between two steps. Driven by a training run; one thread. Nanoseconds of the policy
// clock.
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

class TrainingStanding {
 public:
  /// What stands there; all outlive this.
  struct Parts {
    const JobInWorld& here;
    FitCache& fits;
    Losses& losses;
    JobFaults& faults;
    NextStep& next;
    TrainingBooks& books;
    CheckpointWriter& saving;
    StepSequence& steps;
    SimTimeline* timeline;  ///< null: without one
  };
  explicit TrainingStanding(const Parts& parts) : parts_(parts) {}

  /// It stands for the first time: there it is at home.
  void come_home(const JobStarted& start);
  /// It stands as the world says, where a log has ended.
  void go_on();
  /// No step is open before `at`, because of `use`.
  void stand_still_until(Nanos at, GpuUse use);
  /// The same for so long beyond what it stands still for already.
  void stall(Nanos by) { stand_still_until(std::max(now(), resume_at_) + by, GpuUse::recovery); }

  /// Between two steps: nothing keeps it from the next one.
  bool may_work() const;
  /// When what it was assigned is there; kNever: nothing was.
  Nanos next_change() const { return transition_ ? transition_->ready : kNever; }
  /// The next instant at which something becomes of where it stands.
  Nanos next_stop() const;
  /// Between two steps: what it was assigned comes true if it is there.
  void change();
  /// What strikes it while no step is under way.
  void strike_at_rest();
  /// Losses that are noticed now.
  void notice();
  /// The step under way will not be committed. False: the job ends here.
  bool cut(const estimates::PlayedStep& played);

  void assign(const Assign& assign);
  void leave();

 private:
  /// An assignment that has not come true yet.
  struct Transition {
    Standing where;
    StateFrom state{};
    Nanos ready = 0;
  };

  Nanos now() const { return parts_.steps.now(); }
  const JobInfo& job() const { return parts_.here.job(); }
  const Survival& survival() const { return parts_.here.scenario().survival(); }
  bool at_rest() const;
  std::optional<Nanos> next_at_rest() const;
  void lose(const std::vector<estimates::FatalFault>& lost);
  void hold();
  void fail_saving();
  Nanos ready_for(const Assign& assign) const;
  void come_true(const Transition& transition);
  void refit();

  const Parts parts_;
  Nanos resume_at_ = 0;  ///< no step is open before: the ranks regroup
  std::optional<Transition> transition_;
};

}  // namespace orrery::sim
