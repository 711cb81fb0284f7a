// Checkpoints of a simulated training job: one at a time, written while later steps run, durable at
// an instant that is known at its begin; never durable if a rank dies meanwhile. Owned by a
// training run; one thread. Nanoseconds of the policy clock.
#pragma once

#include <optional>
#include <utility>

#include "policies/seam/event.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Current and requested checkpoint of a job.
class CheckpointWriter {
 public:
  /// Requests a checkpoint after the next step that begins.
  void request_save() { asked_ = true; }
  /// Returns true if a checkpoint is requested.
  bool is_requested() const { return asked_; }
  /// Records the begin of a step: a requested checkpoint comes at its end.
  void step_begins() { after_step_ = after_step_ || std::exchange(asked_, false); }
  /// Returns true if a checkpoint follows the current step.
  bool is_after_this_step() const { return after_step_; }
  /// Returns true if a checkpoint must begin between two steps, by request or by the interval
  /// `every` of the CheckpointPlan. Never true while another one is being written.
  bool is_due(Step step, std::uint64_t every);

  /// Begins to write the state before `step`. `storage`: available fraction of the storage rate.
  /// Returns the stall of the job.
  Nanos begin(JobId job, Step step, Nanos now, const Checkpoints& costs, double storage);
  /// Returns the instant at which the current checkpoint ends; kNever if none is being written or
  /// it cannot end.
  Nanos next() const { return writing_ ? writing_->at : kNever; }
  /// Returns the checkpoint that ended by `now`, once.
  std::optional<SaveDone> take_done(Nanos now);
  /// Marks the current checkpoint as incomplete: it will not be durable.
  void spoil_current();
  /// Ends the current checkpoint, which is known to be incomplete, and returns its failure.
  std::optional<SaveDone> abandon_save();

 private:
  struct Writing {
    SaveDone done;
    Nanos at = 0;
  };
  std::optional<Writing> writing_;
  bool asked_ = false;       ///< true: at the end of the next step
  bool after_step_ = false;  ///< true: at the end of the current step
};

}  // namespace orrery::sim
