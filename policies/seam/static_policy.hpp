// Policy without decisions: the baseline for all other policies. Registered as `static`; one
// thread.
#pragma once

#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that never decides anything and promises so with rest().
class StaticPolicy : public Policy {
 public:
  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList& decisions) override { decisions.rest(); }
};

}  // namespace orrery
