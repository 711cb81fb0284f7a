// State of one simulated training job: all that changes while the job runs, in one plain struct.
// The functions of the job (step_sequence, assignments, loss_events and the files below them) read
// a TrainingSetup, change a TrainingState, and reach the world through JobInWorld. A copy of the
// struct is a fork of the job; copies in one process share their fits, and with them the telemetry
// of past steps. training_snapshot writes the state as bytes. One thread. Nanoseconds of the policy
// clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "policies/seam/decision.hpp"
#include "policies/seam/event.hpp"
#include "sim/estimates/step/played_step.hpp"
#include "sim/training/save_timing.hpp"
#include "sim/training/exchange_meter.hpp"
#include "sim/training/fault_plan.hpp"
#include "sim/training/fit_cache.hpp"
#include "sim/training/losses.hpp"
#include "sim/training/step_conditions.hpp"
#include "sim/training/training_metrics.hpp"

namespace orrery::sim {

/// Equal steps that are advanced together, as many as no event interrupts.
struct Stretch {
  std::shared_ptr<const estimates::SimulatedStep> each;
  Nanos began = 0, length = 0;  ///< times of one step
  std::uint64_t count = 0;

  /// Returns the end of the last step.
  Nanos end() const { return began + length * static_cast<Nanos>(count); }
  /// Returns the number of steps that have ended by `at`, which is at least `began`.
  std::uint64_t ended_by(Nanos at) const {
    return std::min(count, static_cast<std::uint64_t>((at - began) / std::max<Nanos>(length, 1)));
  }
};

/// Fault that ended a starting process.
struct StruckStart {
  Nanos at = 0;
  bool silent = false;                                    ///< stopped, not killed
  std::optional<Nanos> detection = {}, replacement = {};  ///< own times of the fault

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, StruckStart& of) {
    archive(of.at, of.silent, of.detection, of.replacement);
  }
};

/// Assignment that is not active yet.
struct PendingAssignment {
  Standing where;
  StateFrom state{};
  Nanos ready = 0;
  bool restarts_running_job = false;  ///< the job is on hold for this assignment only
  /// GPUs of lost ranks that return: then there is no assignment, and `where` is the placement
  std::vector<GpuId> back = {};
  /// processes of it that were killed while they started (delay_replacement())
  std::vector<StruckStart> struck = {};

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, PendingAssignment& of) {
    archive(of.where, of.state, of.ready, of.restarts_running_job, of.back, of.struck);
  }
};

/// Faults of a job: their times and marks, and the reports of lost parts.
struct JobFaults {
  FaultPlan plan;
  /// states of parts that have been, or will be, reported
  std::map<Part, PartState> reported = {};
  std::vector<std::pair<Nanos, PartChanged>> news = {};  ///< scheduled reports

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, JobFaults& of) {
    archive(of.plan, of.reported, of.news);
  }
};

/// State of one training job. At each instant either a single step is open, or a stretch of equal
/// steps is in progress, or neither (is_idle()). For example, {step = 7, resume_at = 30 s} is a job
/// that begins step 7 at 30 s.
struct TrainingState {
  JobId id = {};           ///< determined by the world at the submission
  bool submitted = false;
  /// true if the micro-batches of lost replicas are left out (survival.lost_work)
  bool drops_lost_work = false;
  Nanos now = 0;           ///< clock of the job, later than the world's inside advanced steps
  Step step = 0;           ///< current step, or the next one

  // The current step.
  std::optional<estimates::PlayedStep> open = {};  ///< single step in progress
  std::optional<Stretch> stretch = {};             ///< steps in progress that are advanced together
  std::optional<StepConditions> conditions = {};   ///< newest step's; none after a move
  bool watched = false;  ///< true if policies have seen a whole step under these conditions
  Nanos stalled = 0;     ///< stall of the current step by lost packets
  std::optional<Step> delayed = {};  ///< newest step whose Delay has begun
  std::optional<Step> asked = {};    ///< newest step that waited for an answer of the policies

  // Committed steps.
  std::uint64_t untold_steps = 0;  ///< committed steps that have not been reported
  Nanos untold_duration = 0;       ///< their duration
  bool tells_all = false;          ///< true if steps of unequal duration are reported one by one
  ExchangeMeter exchange = {};
  TrainingMetrics metrics;

  // Placement, losses and checkpoints.
  FitState fits;
  Nanos resume_at = 0;  ///< no step begins before: the ranks regroup
  std::optional<PendingAssignment> pending = {};
  std::map<GpuId, Nanos> warm = {};  ///< GPUs with a warm spare, and the begins of their waits
  Losses losses = {};
  std::map<GpuId, Nanos> fenced = {};  ///< GPUs of stalled ranks, and when these are heard again
  SaveTiming saving = {};
  /// instant since which the state is corrupted, from the discovery until the policies are told
  std::optional<Nanos> corrupted_since = {};
  /// end of a pause by a policy's limit of power, while the pause lasts
  std::optional<Nanos> paused_until = {};
  JobFaults faults;

  /// Returns true if neither a single step nor a stretch is in progress.
  bool is_idle() const { return !open && !stretch; }
  /// Returns the end of the current step or stretch; kNever if none is in progress.
  Nanos step_end() const { return open ? open->end() : stretch ? stretch->end() : kNever; }
  /// Returns the duration of the current step, or of each step of the stretch; 0 if none is in
  /// progress.
  Nanos step_length() const { return open ? open->duration() : stretch ? stretch->length : 0; }
  /// Returns the number of steps of the stretch that have ended by `at`, which is at least `now`,
  /// and are not in the metrics; 0 without a stretch.
  std::uint64_t uncommitted_by(Nanos at) const { return stretch ? stretch->ended_by(at) : 0; }
  /// Returns the fit of the current placement.
  FittedJob& fit() const { return *fits.now; }
  /// Returns the instant at which the pending assignment is ready; kNever if none is pending.
  Nanos next_change() const { return pending ? pending->ready : kNever; }
  /// Returns the first instant after `now` at which a stalled rank is heard again; kNever if none
  /// is.
  Nanos next_heard_rank() const {
    Nanos next = kNever;
    for (const auto& [gpu, at] : fenced) {
      if (at > now) next = std::min(next, at);
    }
    return next;
  }

  /// Passes all members to a StateWriter or StateReader, except the steps in progress and the fits,
  /// which follow from their begin and their placements (training_snapshot).
  template <class Archive>
  friend void fields(Archive& archive, TrainingState& of) {
    archive(of.id, of.submitted, of.now, of.step, of.conditions, of.watched, of.stalled, of.delayed,
            of.asked, of.untold_steps, of.untold_duration, of.tells_all, of.exchange, of.metrics,
            of.resume_at, of.pending, of.warm, of.losses, of.fenced, of.saving, of.corrupted_since,
            of.paused_until, of.faults);
  }
};

}  // namespace orrery::sim
