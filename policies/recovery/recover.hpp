// What to do about a lost rank: take another one in, with the state of a peer, or go on with those
// that are left. Decides once per loss, for the step under way. No state.
#pragma once

#include "policies/parameters.pb.h"
#include "policies/policy.hpp"

namespace orrery {

class RecoverPolicy : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;

 private:
  Recovery how_ = Recovery::replace;
};

}  // namespace orrery
