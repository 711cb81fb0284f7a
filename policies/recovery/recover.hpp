// What to do about lost ranks: put others in their place (on the same GPUs, or on free ones where
// those are lost too), go on with the replicas that are whole, or restart all from the newest
// checkpoint. Where there is no room, it waits until hardware is back. Decides once per loss.
#pragma once

#include <set>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

class RecoverPolicy : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  enum class How { replace, shrink, restart };
  bool decide(const Observation& seen, const JobInfo& job, DecisionList& decisions) const;

  How how_ = How::replace;
  std::set<JobId> waiting_;  ///< for hardware
};

}  // namespace orrery
