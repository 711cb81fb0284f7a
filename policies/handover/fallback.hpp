// Decorator of a policy that may fail. An exception, or decisions without end, disable the policy:
// from then on nothing is decided, as under `static`, and the training continues. Decisions of the
// failing call are dropped. One thread.
#pragma once

#include <string>

#include "policies/seam/standstill.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that forwards to another policy until that one fails.
class FallbackPolicy : public Policy {
 public:
  /// Constructs a decorator; `inner` must outlive it. Exceptions of start() are thrown on, because
  /// nothing runs yet.
  explicit FallbackPolicy(Policy& inner) : inner_(inner) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;
  bool has_changed() const override { return !failure_.empty() || inner_.has_changed(); }

  /// Returns the reason of the failure; empty: none.
  const std::string& failure() const { return failure_; }
  Nanos failed_at() const { return failed_at_; }  ///< instant of the failure, policy clock
  /// Sets the instant of the failure, which load() cannot know.
  void set_failed_at(Nanos at) { failed_at_ = at; }

 private:
  Policy& inner_;
  StandstillGuard standstill_;
  std::string failure_;
  Nanos failed_at_ = 0;
};

}  // namespace orrery
