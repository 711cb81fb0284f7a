// Decorator of a policy that may fail. An exception, or endless decisions at one instant, disable
// the policy: from then on the run has no decisions, as with `static`, and the training continues.
// The decisions of the failing call are dropped. One thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/policy.hpp"
#include "policies/seam/standstill.hpp"

namespace orrery {

/// Error of a call that the run no longer waits for, because the policy did not answer in time.
class PolicyGivenUp : public Error {
 public:
  /// `run_ends`: true if the run ends anyway, so that the missing answer is no error of the run.
  PolicyGivenUp(std::string message, bool run_ends)
      : Error(ErrorKind::bad_input, std::move(message)), run_ends_(run_ends) {}
  bool run_ends() const { return run_ends_; }

 private:
  bool run_ends_;
};

/// Policy that forwards to another policy until the other policy fails, and then decides nothing.
class FallbackPolicy : public Policy {
 public:
  /// Constructs a decorator of `inner`, which must outlive the decorator. An exception of
  /// inner.start() leaves start(), because no training runs yet. `falls_back`: false if exceptions
  /// of the policy leave observe(), apart from a PolicyGivenUp of a run that ends anyway.
  explicit FallbackPolicy(Policy& inner, bool falls_back = true)
      : inner_(inner), falls_back_(falls_back) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Forwards the call. After a std::exception of the policy, or, if it falls back, a thousand
  /// calls in a row at one instant that decide something or request another call at once
  /// (StandstillGuard), in this call or earlier, drops all decisions, wake-up times and annotations
  /// of this call and rests; the policy is not called any more. Sets failure() and failed_at() at
  /// the failure. Never throws a std::exception if it falls back. Marks the list if the policy was
  /// given up in this call.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the state of the policy; after a failure, in place of the archive's content, only the
  /// message of the failure.
  void save(Archive& archive) const override;
  /// Restores a saved state: that of the policy, or a saved failure, which disables the policy. A
  /// failure before the call remains.
  void load(const Archive& archive) override;
  /// Returns true after a failure, otherwise the result of the policy.
  bool has_changed() const override { return !failure_.empty() || inner_.has_changed(); }

  /// Sets the function that returns the reason for which an earlier process gave up the policy in
  /// the call on the newest observation; empty: it did not. Such a call is not forwarded.
  void on_replay(std::function<std::string()> given_up) { given_up_before_ = std::move(given_up); }
  /// Returns the message of the failure; empty while the policy works.
  const std::string& failure() const { return failure_; }
  /// Returns the instant of the failure, policy clock; 0 while the policy works.
  Nanos failed_at() const { return failed_at_; }
  /// Sets the instant of the failure after load(), because the archive contains only its message.
  void set_failed_at(Nanos at) { failed_at_ = at; }

 private:
  void forward(Context& context, const Observation& seen, DecisionList& decisions);

  Policy& inner_;
  const bool falls_back_;
  std::function<std::string()> given_up_before_;
  StandstillGuard standstill_;
  std::string failure_;
  Nanos failed_at_ = 0;
};

}  // namespace orrery
