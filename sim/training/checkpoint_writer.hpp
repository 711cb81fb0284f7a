// Checkpoints of a simulated training job. One checkpoint is written at a time, while later steps
// run; the instant at which it is durable is known when the write begins. A checkpoint is never
// durable if a rank dies before that instant. Owned by a training run; one thread. Nanoseconds of
// the policy clock.
#pragma once

#include <optional>
#include <utility>

#include "policies/seam/event.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Requested checkpoint of a job, and the checkpoint in flight. For example, with a stall of 1 s
/// and a write of 10 s, a checkpoint that begins at 100 s stalls the job until 101 s and is durable
/// at 111 s; with half of the storage rate, at 121 s.
class CheckpointWriter {
 public:
  /// Requests a checkpoint at the end of the next step that begins. Several requests before that
  /// step count once.
  void request_save() { asked_ = true; }
  /// Returns true if a checkpoint is requested and no step has begun since the request.
  bool is_requested() const { return asked_; }
  /// Records the begin of a step, at whose end a requested checkpoint is due: is_requested()
  /// becomes false, and is_after_this_step() true if a checkpoint was requested.
  void step_begins() { after_step_ = after_step_ || std::exchange(asked_, false); }
  /// Returns true if a requested checkpoint is due at the end of the current step; false again
  /// after is_due().
  bool is_after_this_step() const { return after_step_; }
  /// Returns true if a checkpoint must begin before `step`, by request or because `step` is a
  /// multiple of `every`, the interval of the CheckpointPlan (0: no interval). Returns false while
  /// another checkpoint is in flight; even then a request that is due here is cleared. Call once at
  /// the end of each reported step.
  bool is_due(Step step, std::uint64_t every);

  /// Begins to write the state before `step` at `now` and returns the stall of the job, which the
  /// caller applies. Call only while no checkpoint is in flight, after is_due(). `storage`:
  /// available fraction of the storage's rate; with 0 the checkpoint ends after the stall and is
  /// not durable.
  Nanos begin(JobId job, Step step, Nanos now, const Checkpoints& costs, double storage);
  /// Returns the instant at which the checkpoint in flight ends; kNever if no checkpoint is in
  /// flight, or if it is incomplete.
  Nanos next() const { return writing_ ? writing_->at : kNever; }
  /// Returns the checkpoint that ended by `now` and removes it; nothing if no checkpoint is in
  /// flight, or if the one in flight ends later or is incomplete.
  std::optional<SaveDone> take_done(Nanos now);
  /// Marks the checkpoint in flight, if any, as incomplete, because a rank died: next() becomes
  /// kNever, take_done() never returns the checkpoint, and only abandon_save() ends it.
  void spoil_current();
  /// Ends the checkpoint in flight, incomplete or not, and returns it as not durable; nothing if no
  /// checkpoint is in flight.
  std::optional<SaveDone> abandon_save();

 private:
  /// Checkpoint in flight, and the instant at which it ends.
  struct Writing {
    SaveDone done;
    Nanos at = 0;
    /// Passes all members to a StateWriter or StateReader.
    template <class Archive>
    friend void fields(Archive& archive, Writing& of) {
      archive(of.done, of.at);
    }
  };
  std::optional<Writing> writing_;
  bool asked_ = false;       ///< true if a checkpoint is due at the end of the next step
  bool after_step_ = false;  ///< true if a checkpoint is due at the end of the current step

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, CheckpointWriter& of) {
    archive(of.writing_, of.asked_, of.after_step_);
  }
};

}  // namespace orrery::sim
