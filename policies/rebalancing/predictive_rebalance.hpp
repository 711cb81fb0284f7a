// The policy `predictive-rebalance`: on every tick it predicts late data-parallel replicas from GPU
// load, memory bandwidth, link latency and progress, and moves micro-batches away from them, within
// memory limits and with hysteresis. Registered in registry.cpp; one thread. Method: job_watch
// holds a Kalman filter for each rank; a replica is as slow as its slowest rank. The predicted
// speeds for a step give its best integer shares. The policy decides them if they shorten the step
// by a threshold and beyond the doubt of the prediction, if the latest replica is late beyond that
// doubt as well, and if the last shift is some steps ago. It examines two steps: one some steps
// ahead, to act on a trend early, and the first step that a shift can reach, which has less doubt.
// For example, at 1, 1, 1 and 2 s a micro-batch, 32 micro-batches move from {8, 8, 8, 8} to {9, 9,
// 9, 5}, and the step takes 10 s instead of 16 s.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/rebalancing/job_watch.hpp"
#include "policies/rebalancing/shares.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that moves micro-batches before a straggler forms.
class PredictiveRebalance : public Policy {
 public:
  /// Constructs a policy with default parameters.
  PredictiveRebalance();

  /// Returns Configure, the setting Shares, and the tick of the parameters.
  Needs needs() const override;
  /// Forgets all jobs. `parameters`: PredictiveRebalanceParameters, or null for the defaults of all
  /// fields; throws an internal Error for another message type.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Follows the running training jobs with at least two replicas and no lost rank; a job that
  /// changes its ranks or GPUs starts without measurements. Reads samples at each call with an
  /// event other than Decided; of a job with more than 384 ranks at a mere tick only a summary,
  /// unless it is a surprise. Decides at most one Configure of Shares for a job, from the first
  /// step that a shift can reach on. Rests if each followed job was examined at this call, is not
  /// cooling down after a shift, and neither needed a shift nor, with a few measured steps and no
  /// trend, may soon need one.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the speed filters and the last shift of all followed jobs; replaces the content of the
  /// archive. The parameters are not part of the state.
  void save(Archive& archive) const override;
  /// Replaces the followed jobs. Throws an internal Error, and changes nothing, for bytes that are
  /// incomplete or too many.
  void load(const Archive& archive) override;
  /// Returns true before the first observe(), and if the last observe() changed the number of
  /// followed jobs or examined one of them; a job of more than 384 ranks is not examined at a
  /// mere tick without a surprise.
  bool has_changed() const override { return changed_; }

 private:
  /// State of one job.
  struct Plan {
    JobWatch watch;
    Step shifted_at = 0;  ///< first step of the last shift
    bool shifted = false;
    bool looked = false;  ///< true if samples were read at this call
  };
  /// Prediction for one step of a job. The deviations are 0 unless a shift is worthwhile.
  struct Outlook {
    bool complete = false;  ///< true if some replica is known
    Step target = 0;
    ShareList best;
    double makespan_now = 0, makespan_best = 0;  ///< seconds, at the target step
    double lateness = 0, deviation = 0;          ///< latest replica: log time over the balanced one
    std::uint32_t latest_rank = 0;
    double latest_deviation = 0;  ///< deviation of that replica's log time
    double slowness = 1;          ///< micro-batch time of that rank over the median of the replicas

    double gain() const { return makespan_now > 0 ? 1 - makespan_best / makespan_now : 0; }
  };
  static bool is_rebalanced(const JobInfo& job);
  void watch_samples(const Observation& seen);
  void read_samples(const Observation& seen, JobId id, Plan& plan) const;
  Outlook look_ahead(const JobInfo& job, const Plan& plan, Step target) const;
  bool is_worthwhile(const JobInfo& job, const Outlook& outlook) const;
  bool is_certain(const Plan& plan, const Outlook& outlook, double confidence) const;
  /// Decides for one job. Returns true if no decision is pending and none would be made.
  bool decide_for_job(const JobInfo& job, Plan& plan, DecisionList& decisions) const;
  Step horizon(Step step) const;
  std::string reason(const JobInfo& job, const Outlook& outlook) const;

  PredictiveRebalanceParameters parameters_;
  std::map<JobId, Plan> plans_;
  bool changed_ = true;
};

}  // namespace orrery
