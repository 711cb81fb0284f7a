// What job queues share: they hear of jobs that come, run, stop and end, and make one pass over the
// queue at every instant at which something may have become possible. Subclasses own the order and
// the pass. One thread, as every policy.
//
// What became of a policy's own decisions is no reason for another pass: a pass decides on what
// ended and what came, once an instant.
#pragma once

#include <memory>

#include "policies/placement/placer.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

class QueuePolicy : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) final;
  /// What subclasses keep beyond the queue follows from jobs and events: after load() everything is
  /// built anew from the table, at the first observation.
  void load(const Archive& archive) override;

 protected:
  /// It waits: submitted, or off its GPUs again.
  virtual void enter(const JobInfo& job, Nanos now) = 0;
  /// It runs since `since`.
  virtual void run(const JobInfo& job, Nanos since) = 0;
  virtual void leave(const JobInfo& job) = 0;  ///< it is over
  virtual void clear() = 0;                    ///< as if nothing had ever come
  /// The pass; `free()` has been brought up to date.
  virtual void dispatch(const Observation& seen, DecisionList& decisions) = 0;
  /// Whether this instant is one that the policy has been waiting for.
  virtual bool due(Nanos) { return false; }
  /// Whether GPUs that a job has left are news; not if the policy has given them away already.
  virtual bool stop_is_news(Nanos) const { return true; }

  /// Where the job would go, taken from what is free; nothing if it does not fit.
  std::optional<GpuRuns> place(const JobSpec& job) { return placer_->place(job, *free_); }
  FreeGpus& free() { return *free_; }
  const FreeGpus& free() const { return *free_; }
  /// Makes the next observation fill the queue anew from the table.
  void rebuild_later() { rebuild_ = true; }

 private:
  bool follow(const Observation& seen);
  bool hear(const Observation& seen, const Event& event);
  void rebuild(const Observation& seen);

  std::unique_ptr<Placer> placer_;
  std::unique_ptr<FreeGpus> free_;
  bool rebuild_ = false;
};

}  // namespace orrery
