// Policy `fixed-codec`: sets the compression rules of every data-parallel job, once each time the
// job starts to run, to the rules of the scenario, which apply after a warm-up. Repeats the
// decision up to three times if it is rejected or expires, for example at a change of membership.
// Registered in run/registry.cpp; one thread.
#pragma once

#include <map>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Returns the compression rules of a scenario's parameters. Throws bad_input for a rule whose
/// parameter is not valid for its codec, an internal Error for a bucket class that the schema does
/// not know.
std::vector<CodecRule> rules_of(const FixedCodecParameters& parameters);

/// Policy that sets fixed compression rules.
class FixedCodec : public Policy {
 public:
  /// Returns Configure and the setting CodecRules; no tick.
  Needs needs() const override;
  /// Reads the rules and the warm-up, and forgets earlier decisions. `parameters`:
  /// FixedCodecParameters; throws an internal Error without them. Otherwise throws as rules_of().
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Decides the rules for each running job with at least two replicas, with the warm-up as
  /// `at_step` if the job has not passed it yet; decides again if the newest decision on the job
  /// was not applied, four times in total. A job that stops running starts over. Always rests.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Appends the newest decision and the number of decisions of each running job.
  void save(Archive& archive) const override;
  /// Replaces the decisions; rules and warm-up come from start(). Throws an internal Error, and
  /// changes nothing, for bytes that are incomplete or too many.
  void load(const Archive& archive) override;

 private:
  std::vector<CodecRule> rules_;
  Step warm_up_ = 0;  ///< number of steps without compression
  /// Decisions on one job.
  struct Asked {
    DecisionId newest = 0;    ///< newest decision
    std::uint32_t times = 0;  ///< number of decisions
  };
  std::map<JobId, Asked> asked_;  ///< keyed by running job
};

}  // namespace orrery
