// The policy `predictive-rebalance`: on every tick it predicts from GPU load, memory bandwidth,
// link latency and per-rank progress which data-parallel replicas will be late, and shifts
// micro-batches away from them, within memory limits and with hysteresis. Registered in
// registry.cpp; one thread, as every policy.
//
// How: job_watch holds a Kalman filter per rank; a replica goes at the pace of its slowest rank.
// The paces predicted for a step give its best integer shares. They are decided if they shorten
// the step by a threshold and beyond the doubt of the prediction, if the latest replica is late
// beyond it as well, and if the last shift is some steps ago. Two steps are looked at: one some way
// ahead, to act on a trend before it hurts, and the first that a shift can reach, where there is
// less doubt.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"
#include "policies/scheduling/job_watch.hpp"
#include "policies/scheduling/shares.hpp"

namespace orrery {

class PredictiveRebalance : public Policy {
 public:
  PredictiveRebalance();

  Needs needs() const override;
  /// `parameters`: PredictiveRebalanceParameters or null; absent fields take their defaults.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;
  bool changed() const override { return changed_; }

 private:
  struct Plan {
    JobWatch watch;
    Step shifted_at = 0;  ///< the step that the last shift takes effect at
    bool shifted = false;
    bool looked = false;  ///< at samples, at this call
  };
  /// What the predictions for one step mean for a job.
  struct Outlook {
    bool complete = false;  ///< some replica is known
    Step target = 0;
    ShareList best;
    double makespan_now = 0, makespan_best = 0;  ///< seconds, at the target
    double lateness = 0, deviation = 0;  ///< of the latest replica: log time over balanced
    std::uint32_t latest_rank = 0;
    double latest_deviation = 0;  ///< of that replica's log time
    double slowness = 1;  ///< micro-batch time of that rank over the median of the replicas

    double gain() const { return makespan_now > 0 ? 1 - makespan_best / makespan_now : 0; }
  };
  static bool concerns(const JobInfo& job);
  void watch(const Observation& seen);
  void look(const Observation& seen, JobId id, Plan& plan) const;
  Outlook look_ahead(const JobInfo& job, const Plan& plan, Step target) const;
  bool worth_it(const JobInfo& job, const Outlook& outlook) const;
  bool certain(const Plan& plan, const Outlook& outlook, double confidence) const;
  /// Decides for one job; true if nothing is under way and nothing would be decided.
  bool consider(const JobInfo& job, Plan& plan, DecisionList& decisions) const;
  Step horizon(Step step) const;
  std::string reason(const JobInfo& job, const Outlook& outlook) const;

  PredictiveRebalanceParameters parameters_;
  std::map<JobId, Plan> plans_;
  bool changed_ = true;
};

}  // namespace orrery
