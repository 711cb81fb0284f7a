// The yardstick: the policy that never does anything. What the others gain is measured against it.
#pragma once

#include "policies/seam/policy.hpp"

namespace orrery {

class StaticPolicy : public Policy {
 public:
  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList& decisions) override { decisions.rest(); }
};

}  // namespace orrery
