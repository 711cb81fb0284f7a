// What job queues with strict head-of-line blocking share: after every batch of events the jobs
// are started in queue order until the first that cannot be placed. Subclasses own the order.
// Running jobs keep their GPUs. One thread, as every policy.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policies/placement/placer.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

class StrictQueue : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;

 protected:
  virtual std::string placement(const google::protobuf::Message& parameters) const = 0;
  virtual const char* reason() const = 0;
  virtual void enter(const JobSpec& job) = 0;  ///< at the place its order gives it
  virtual void drop(const JobSpec& job) = 0;   ///< wherever it stands, if it does
  /// The first job of the queue.
  virtual std::optional<JobId> head(const JobTable& jobs) = 0;
  virtual void clear() = 0;
  /// Makes the next observation fill the queue anew with all waiting jobs.
  void rebuild_later() { rebuild_ = true; }

 private:
  void follow(const Observation& seen);

  std::unique_ptr<Placer> placer_;
  std::unique_ptr<FreeGpus> free_;
  bool rebuild_ = false;
};

}  // namespace orrery
