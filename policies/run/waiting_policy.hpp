// Policies that block until another process answers, which a run need not wait for. Implemented by
// HostPolicy and by the stack of policies outside of the run's process (outside_policies.hpp). One
// thread.
#pragma once

#include <functional>

#include "core/error.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Error of a call to which the run needs no answer any more.
class AnswerWithdrawn : public Error {
 public:
  AnswerWithdrawn() : Error(ErrorKind::environment, "the run does not wait for the policy") {}
};

/// Policy that waits for the answers of another process.
class WaitingPolicy : public Policy {
 public:
  /// Sets the function that returns true once the run does not wait for the answer any more; polled
  /// about ten times a second while the policy starts or decides, which then ends the process and
  /// throws AnswerWithdrawn. The function must be valid until it is replaced: a later start() still
  /// calls it.
  virtual void on_wait(std::function<bool()> withdrawn) = 0;
  /// Tells the other process of a decision that policies beside this one made on the newest
  /// observation. Call once for each, before the next observe().
  virtual void announce_decision(const Decision& decision) = 0;
  /// Lets other policies decide from the next observe() on; needs() returns their needs then.
  /// Throws an internal Error if there are none, and as saved_state.hpp if they refuse the state of
  /// a policy of the same name.
  virtual void activate_heirs() {
    throw Error(ErrorKind::internal, "only policies with heirs are replaced");
  }
};

}  // namespace orrery
