// Checkpoints of a simulated training job. One checkpoint of each tier is written at a time, while
// later steps run; the instant at which it is complete is known when the write begins. A checkpoint
// is never complete if a rank dies, or a node that holds copies is lost, before that instant. Owned
// by a training run; one thread. Nanoseconds of the policy clock.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "policies/seam/event.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Requested checkpoints of a job, and the checkpoints in flight. For example, with a stall of 1 s
/// and a write of 10 s, a checkpoint that begins at 100 s stalls the job until 101 s and is durable
/// at 111 s; with half of the storage rate, at 121 s. A checkpoint of `checkpoints.bytes` has a
/// rate that changes while it is written (set_rate()) instead of a duration.
class SaveTiming {
 public:
  /// Requests a checkpoint of the tier at the end of the next step that begins. Several requests of
  /// one tier before that step count once.
  void request_save(Tier tier) { asked_.request_save(tier); }
  /// Returns true if a checkpoint is requested and no step has begun since the request, or if a
  /// requested checkpoint had to wait for a later step.
  bool is_requested() const { return !asked_.is_empty(); }
  /// Records the begin of a step, or of several steps with one plan. A requested checkpoint is due
  /// at the end of the step: is_requested() becomes false, and is_after_this_step() true if a
  /// checkpoint was requested. A periodic checkpoint at the end of the step follows `plan`, as in a
  /// live run, whose ranks learn at the begin of a step whether they save at its end.
  void step_begins(const CheckpointPlan& plan);
  /// Returns the plan of the current step, or of the newest one.
  const CheckpointPlan& plan() const { return plan_; }
  /// Returns true if a requested checkpoint is due at the end of the current step; false again
  /// after drain_due().
  bool is_after_this_step() const { return !after_step_.is_empty(); }
  /// Returns the tier of the checkpoint that must begin before `step`, by request or because `step`
  /// is a multiple of the interval of plan() (SaveRequests::due()); nothing if none is due, and
  /// while another checkpoint of the tier is in flight, whose request is dropped. Other requests
  /// wait for the next step. Call once at the end of each reported step.
  std::optional<Tier> drain_due(Step step);

  /// Checkpoint that begins.
  struct Order {
    JobId job;
    Step step = 0;
    Tier tier{};
    std::vector<CopyHolders> holders = {};
    double storage = 1;  ///< available fraction of the storage's rate
  };
  /// Begins to write the state before the order's step at `now` and returns the stall of the job,
  /// which the caller applies. Call only while no checkpoint of the tier is in flight, after
  /// drain_due(). A checkpoint of `checkpoints.bytes` writes nothing before set_rate(). With the
  /// rate 0, a checkpoint on disk ends after the stall and is not durable; checkpoints in memory do
  /// not depend on the storage.
  Nanos begin(const Order& order, Nanos now, const Checkpoints& costs);
  /// Returns true while bytes of a checkpoint of `checkpoints.bytes` are being written; false for
  /// one that is marked as incomplete.
  bool is_flowing() const;
  /// Returns the bytes that the checkpoint that is_flowing() has not written by `now`, which is not
  /// before the newest set_rate(); 0 if none is.
  double bytes_left(Nanos now) const;
  /// Sets the rate of the checkpoint that is_flowing(), in bytes per second, from `now` on, or from
  /// the end of its stall if that is later. 0: nothing is written until the next call. Call only if
  /// is_flowing().
  void set_rate(double rate, Nanos now);
  /// Records the checkpoint `done`, which ends at `now`; nothing if it is not durable. Of the
  /// checkpoints on disk and storage, the `keep` newest ones of each tier stay.
  void keep_checkpoint(const SaveDone& done, Nanos now, std::size_t keep);
  /// Forgets the kept checkpoints of steps after `step`, with which the job begins again.
  void forget_kept_after(Step step);
  /// Returns the step of the newest kept checkpoint whose state was taken before `since`; 0 if no
  /// such checkpoint is kept.
  Step newest_intact(Nanos since) const;
  /// Returns the step of the oldest kept checkpoint, or `held` if that is older or none is kept.
  Step oldest_kept(Step held) const;
  /// Returns the instant at which the next checkpoint in flight ends; kNever if none is in flight,
  /// or if all are incomplete.
  Nanos next() const;
  /// Returns the checkpoint that ended first by `now` and removes it; nothing if no checkpoint is
  /// in flight, or if those in flight end later or are incomplete.
  std::optional<SaveDone> take_done(Nanos now);
  /// Marks the checkpoints in flight as incomplete, because a rank died: take_done() never returns
  /// them, and only abandon_saves() ends them.
  void spoil_current();
  /// Returns the checkpoints in flight whose shards `node` holds, as not durable, and removes them:
  /// the node is lost. Empty if there are none.
  std::vector<SaveDone> abandon_holder(NodeId node);
  /// Ends the checkpoints in flight, incomplete or not, and returns them as not durable, in the
  /// order of their tiers; empty if none is in flight.
  std::vector<SaveDone> abandon_saves();

 private:
  /// Progress of a checkpoint whose rate changes.
  struct Flow {
    double left = 0;  ///< bytes left at the instant `since`
    double rate = 0;  ///< bytes per second from then on
    Nanos since = 0;
    Nanos began = 0;  ///< instant of begin()
    /// Passes all members to a StateWriter or StateReader.
    template <class Archive>
    friend void fields(Archive& archive, Flow& of) {
      archive(of.left, of.rate, of.since, of.began);
    }
  };
  /// Checkpoint in flight, and the instant at which it ends.
  struct Writing {
    SaveDone done;
    Nanos at = 0;
    std::optional<Flow> flow = {};  ///< nothing: the duration was known at the begin
    /// Passes all members to a StateWriter or StateReader.
    template <class Archive>
    friend void fields(Archive& archive, Writing& of) {
      archive(of.done, of.at, of.flow);
    }
  };
  /// Returns the checkpoint that is_flowing(); the end of writing_ if none is.
  std::map<Tier, Writing>::const_iterator flowing() const;
  std::map<Tier, Writing> writing_;
  /// Instants at which the states of the kept checkpoints were taken, by tier and step.
  std::map<Tier, std::map<Step, Nanos>> kept_;
  CheckpointPlan plan_;      ///< plan of the current step
  SaveRequests asked_;       ///< due at the end of the next step
  SaveRequests after_step_;  ///< due at the end of the current step

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, SaveTiming& of) {
    archive(of.writing_, of.kept_, of.plan_.every_steps, of.plan_.tier, of.asked_, of.after_step_);
  }
};

}  // namespace orrery::sim
