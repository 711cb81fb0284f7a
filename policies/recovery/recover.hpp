// What to do about lost ranks: put others in their place on the same GPUs, or go on with the
// replicas that are whole; the state is taken from a peer. Decides once per loss. No state.
#pragma once

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

class RecoverPolicy : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;

 private:
  bool shrink_ = false;
};

}  // namespace orrery
