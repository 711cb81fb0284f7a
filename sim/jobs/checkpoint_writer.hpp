// What of a training job is being saved: one checkpoint at a time, written beside the steps that
// follow it, durable at an instant that is known when it begins; not at all if a rank dies
// meanwhile. Kept by a training run; one thread. Nanoseconds of the policy clock.
#pragma once

#include <optional>
#include <utility>

#include "policies/seam/event.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

class CheckpointWriter {
 public:
  /// A policy wants one: after the next step that begins.
  void ask() { asked_ = true; }
  bool asked() const { return asked_; }
  /// A step begins to be looked at: what has been asked for comes at its end.
  void step_begins() { after_step_ = after_step_ || std::exchange(asked_, false); }
  bool after_this_step() const { return after_step_; }
  /// Between two steps: whether one is to begin, by what was asked for or by `every`, the
  /// CheckpointPlan. None does beside another one.
  bool due(Step step, std::uint64_t every);

  /// Begins to write the state before `step`; `storage` is the share of its rate that is there.
  /// How long the job stands still for it.
  Nanos begin(JobId job, Step step, Nanos now, const Checkpoints& costs, double storage);
  /// When what is being written is over; kNever: nothing is, or it never will be.
  Nanos next() const { return writing_ ? writing_->at : kNever; }
  /// What was over by `now`.
  std::optional<SaveDone> take_done(Nanos now);
  /// What is being written lacks a part: it will not be durable.
  void spoil();
  /// What is being written is given up, now that it is known that it will not be durable.
  std::optional<SaveDone> give_up();

 private:
  struct Writing {
    SaveDone done;
    Nanos at = 0;
  };
  std::optional<Writing> writing_;
  bool asked_ = false;       ///< for after the next step
  bool after_step_ = false;  ///< the one under way
};

}  // namespace orrery::sim
