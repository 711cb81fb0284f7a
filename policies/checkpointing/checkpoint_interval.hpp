// How often a job writes checkpoints: a fixed interval, or the one of Young or Daly for the cost of
// a checkpoint and the mean time between failures, declared or observed. Sets CheckpointPlan, in
// whole steps of what a step has taken lately. Called by drive(); one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

class CheckpointInterval : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  struct Watched {
    Nanos since = 0;  ///< its first start
    std::uint64_t failures = 0;
    double step_s = 0;             ///< of the newest steps
    std::optional<double> cost_s;  ///< of the newest durable checkpoint
    std::uint64_t asked = 0;       ///< steps between two checkpoints
  };

  double mtbf_s(const Watched& of, Nanos now) const;
  double interval_s(const Watched& of, Nanos now) const;
  void plan(const Observation& seen, JobId id, DecisionList& decisions);

  CheckpointIntervalParameters parameters_;
  std::map<JobId, Watched> jobs_;
};

}  // namespace orrery
