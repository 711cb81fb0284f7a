// Sets every data-parallel job's codes once, as it starts, to fixed rules from the scenario; they
// hold from the end of the warm-up on. Asks again where the ranks could not agree on it, a few
// times. Registered as `fixed-codec`; one thread.
#pragma once

#include <map>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

/// The rules that a scenario's parameters name. Throws bad_input for a rule that no codec has.
std::vector<CodecRule> rules_of(const FixedCodecParameters& parameters);

class FixedCodec : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  std::vector<CodecRule> rules_;
  Step warm_up_ = 0;
  /// How often it was asked for, and by which decision at last.
  struct Asked {
    DecisionId newest = 0;
    std::uint32_t times = 0;
  };
  std::map<JobId, Asked> asked_;  ///< of running jobs
};

}  // namespace orrery
