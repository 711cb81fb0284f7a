// Common part of job queues: it follows jobs that arrive, run, stop and end, and makes one pass
// over the queue at every instant at which a start may have become possible. Subclasses own the
// order and the pass. One thread. The outcomes of a policy's own decisions cause no further pass: a
// pass decides on the ends and arrivals of an instant, once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "policies/placement/placer.hpp"
#include "policies/queues/power_room.hpp"
#include "policies/seam/away_parts.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Base class of all queue policies. For example, after the end of a job at 10 s, observe() calls
/// remove_job() and then dispatch_jobs() once.
class QueuePolicy : public Policy {
 public:
  /// Returns the action Assign and `gpu_parts`, which place_job() knows, without settings and
  /// ticks. An override adds `gpu_kinds` if the policy does not count GPUs of all kinds together,
  /// and takes `gpu_parts` away if the policy divides GPUs by itself.
  Needs needs() const override;
  /// Creates the placer that the parameter `placement` names, and reads the limits of power of the
  /// parameter `limits`, if the policy has one. Throws bad_input for an unknown placement and as
  /// PowerRoom(), an internal Error without parameters or without the parameter `placement`. An
  /// override also reads its own parameters and throws std::bad_cast for another message type.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Follows the events, makes at most one pass, and always rests. A pass is due after a
  /// submission, an end, a stop of a job (unless the policy itself has given its GPUs away at this
  /// instant), a part that is lost or back, at an instant that the policy has requested, at the
  /// next begin or end of a limit of power that keeps a job waiting, and when the queue is rebuilt:
  /// at the first call after load(), and at a decision that was rejected or has expired.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) final;
  /// Ignores the bytes, and rebuilds the queue from the job table at the next observation. State of
  /// a subclass that follows neither from jobs nor from events is lost.
  void load(const Archive& archive) override;

 protected:
  /// Adds a job that waits: submitted, or without its GPUs again. May be called for a job that the
  /// policy has stopped itself and that waits already.
  virtual void enter_queue(const JobInfo& job, Nanos now) = 0;
  /// Records a job that runs since `since`. May be called for a job that the policy has started
  /// itself.
  virtual void run(const JobInfo& job, Nanos since) = 0;
  virtual void remove_job(const JobInfo& job) = 0;  ///< removes a job that is over
  virtual void clear() = 0;                    ///< forgets all jobs
  /// Makes a pass; free_gpus() is up to date.
  virtual void dispatch_jobs(const Observation& seen, DecisionList& decisions) = 0;
  /// Returns true if the policy has been waiting for this instant. Called once at every
  /// observation, before its events; an override may change its state.
  virtual bool is_due(Nanos) { return false; }
  /// Returns true if GPUs released by a job may allow a start; false if the policy has given them
  /// away already.
  virtual bool is_stop_relevant(Nanos) const { return true; }

  /// Returns the GPUs for a job, all of one kind, and removes them from the free GPUs; nothing, and
  /// no effect, if the job does not fit or the limits of power keep it waiting. Call within
  /// dispatch_jobs().
  std::optional<GpuRuns> place_job(const JobSpec& job);
  /// Returns the instant from which a job that place_job() did not place in this pass is expected
  /// to have power; nothing if no limit of power keeps the job waiting.
  std::optional<Nanos> expected_power(const JobSpec& job) const {
    return room_.expected_start(job.id);
  }
  /// Adds the GPUs of a job that the pass preempts to the free GPUs. Call within dispatch_jobs().
  void return_gpus(const GpuRuns& gpus);
  /// Returns true if a job may not fit although a job of as many GPUs fits: the cluster has several
  /// kinds of GPUs, and the job may not use all of them; or limits of power keep long jobs waiting.
  bool is_choosy(const JobSpec& job) const {
    return !room_.empty() || (!kinds_->empty() && !job.gpu_kinds.empty());
  }
  /// Returns the GPUs for a job outside of the nodes `closed`, otherwise as place_job(). On a
  /// cluster with several kinds of GPUs, `closed` must have all nodes of all kinds but one, and
  /// free_kinds() does not change.
  std::optional<GpuRuns> place_outside(const JobSpec& job,
                                       const std::vector<std::uint32_t>& closed);
  /// Returns the free GPUs of the pass, of all kinds. A policy that changes them does not use
  /// free_kinds().total(). Call after start().
  FreeGpus& free_gpus() { return *free_; }
  const FreeGpus& free_gpus() const { return *free_; }
  /// Returns the free GPUs of the pass by kind; empty on a cluster with one kind. Call after
  /// start().
  const FreeKinds& free_kinds() const { return *kinds_; }
  /// Requests that the next observation rebuilds the queue from the table.
  void rebuild_later() { rebuild_ = true; }

 private:
  bool follow_events(const Observation& seen);
  bool on_event(const Observation& seen, const Event& event);
  void rebuild_queue(const Observation& seen);

  std::unique_ptr<Placer> placer_;
  std::unique_ptr<FreeGpus> free_;
  std::unique_ptr<FreeKinds> kinds_;
  AwayParts away_;
  PowerRoom room_;
  Nanos retry_ = kNever;  ///< begin or end of a limit at which the next pass is due
  bool rebuild_ = false;
};

}  // namespace orrery
