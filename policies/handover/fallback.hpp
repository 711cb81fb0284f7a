// A decorator round a policy that errs at most once: what it throws, or deciding without end, puts
// it aside, and from then on nothing is decided, as under `static`. The training goes on as it
// stands. What the policy had decided in the failing call is dropped. One thread.
#pragma once

#include <string>

#include "policies/seam/standstill.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

class FallbackPolicy : public Policy {
 public:
  /// `inner` outlives this. What it throws in start() is thrown on: nothing runs yet.
  explicit FallbackPolicy(Policy& inner) : inner_(inner) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;
  bool changed() const override { return !failure_.empty() || inner_.changed(); }

  /// Why it was put aside; empty: it was not.
  const std::string& failure() const { return failure_; }
  Nanos failed_at() const { return failed_at_; }  ///< policy clock
  /// What load() cannot know: when that was.
  void set_failed_at(Nanos at) { failed_at_ = at; }

 private:
  Policy& inner_;
  StandstillGuard standstill_;
  std::string failure_;
  Nanos failed_at_ = 0;
};

}  // namespace orrery
