// Fixed gradient codes: sets every data-parallel job's codes once, at its start, to rules from the
// scenario, which apply from the end of the warm-up on. Repeats the decision a few times if the
// ranks could not agree. Registered as `fixed-codec`; one thread.
#pragma once

#include <map>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Returns the rules in a scenario's parameters. Throws bad_input for a rule without a codec.
std::vector<CodecRule> rules_of(const FixedCodecParameters& parameters);

/// Policy that sets fixed codes.
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
  /// Number of requests, and the newest decision.
  struct Asked {
    DecisionId newest = 0;
    std::uint32_t times = 0;
  };
  std::map<JobId, Asked> asked_;  ///< keyed by running job
};

}  // namespace orrery
