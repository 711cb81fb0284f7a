// Policies in a thread of their own, for a run that must go on, or end, while they decide: real
// processes wait for nobody. The thread has a world of its own, so that a policy that is given up
// and returns later meets no object of the run.
#pragma once

#include <memory>

#include "policies/run/policy_meter.hpp"
#include "policies/seam/policy.hpp"
#include "policies/seam/stack.hpp"

namespace orrery {

/// Policy that calls a stack of policies in another thread. All methods belong to the thread that
/// runs drive(); observe() blocks until the stack has answered or the meter gives up the call.
/// After a call that was given up, no other method may be called.
class ThreadedPolicy : public Policy {
 public:
  /// `cluster` is shared with the thread, which may outlive this object. `meter` must outlive this
  /// object.
  ThreadedPolicy(std::shared_ptr<PolicyStack> stack, std::shared_ptr<const Cluster> cluster,
                 PolicyMeter& meter);
  /// Ends the thread. A thread whose call was given up goes on until its policy returns.
  ~ThreadedPolicy() override;

  /// Returns the needs of the stack.
  Needs needs() const override;
  /// Starts the stack in this thread, with the cluster of the constructor; ignores `cluster`.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Throws the exceptions of the policies, PolicyGivenUp, and the exceptions of the run meanwhile
  /// (PolicyMeter::await_answer); after the last two the call counts as given up.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the state of the stack after the newest observe() that returned; before the first one,
  /// its present state.
  void save(Archive& archive) const override;
  /// Loads the state of the stack. Throws as PolicyStack::load().
  void load(const Archive& archive) override;
  /// Returns the result of the stack after the newest observe(); true before the first.
  bool has_changed() const override;

  /// Sets the world that the policies see, for a run that continues from a snapshot or has followed
  /// other decisions than theirs. Call between two calls of observe(), after load() if that is
  /// called, with the world of the newest observation.
  void set_world(const World& world);
  /// Returns true if a thread of this process may still execute a policy that was given up. Such a
  /// process must end with _exit(), because the thread uses objects with static lifetime.
  static bool has_abandoned_threads();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  PolicyMeter& meter_;
};

}  // namespace orrery
