// Queue policy that chooses among several policies by forecasts: at fixed intervals the futures of
// the queue are simulated under each candidate, and sim/forecast/choice_rule says which policy
// acts. While another policy than the first acts, sim/forecast/choice_guard compares its realised
// goal with that of the first policy, which returns if it would have been better. One thread;
// nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/forecast/choice_guard.hpp"
#include "sim/forecast/choice_rule.hpp"
#include "sim/forecast/queue_forecast.hpp"
#include "sim/forecast/queue_learner.hpp"

namespace orrery::sim {

/// Policy that forwards to the chosen one of several policies. A policy that takes over begins with
/// the table of jobs: history of earlier times (gittins) is lost. A parameter that the operator
/// sets holds for the forecasts, and for the policy when it acts.
class PolicyChoice : public Policy {
 public:
  /// Options of a choice.
  struct Options {
    std::vector<JobReplay> candidates;  ///< the first is active at the beginning
    QueueGoal goal = QueueGoal::wait;
    Nanos every = 3600 * kNanosPerSecond;  ///< interval of the forecasts
    FutureOptions futures = {.samples = 8, .rest = 6 * 24 * 3600 * kNanosPerSecond};
    ChoiceThresholds thresholds;
    std::uint32_t check_every = 24;  ///< forecasts between two checks of the realised goal
    double most_loss = 0.05;  ///< fraction by which the realised goal may exceed the first policy's
    ColumnsOf columns = columns_of_spec;
    std::function<void(const PolicySwitch&)> at_switch = {};
  };

  /// Throws bad_input for an unknown policy.
  explicit PolicyChoice(Options options);

  Needs needs() const override { return policy_->needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;

 private:
  static constexpr std::uint32_t kCheckSamples = 4;
  static constexpr std::size_t kMostJobs = 4000;  ///< jobs of a record that begins anew

  void set_parameter(const ParameterSet& set);
  void forecast(const Observation& seen);
  void check_realised(const Observation& seen);
  void activate_chosen(Context& context, const Cluster& cluster);

  Options options_;
  QueueLearner learner_;
  ChoiceRule rule_;
  ChoiceGuard guard_;            ///< record while another policy than the first acts
  std::uint32_t unchecked_ = 0;  ///< forecasts since the begin of the record or the newest check
  std::unique_ptr<Policy> policy_;
  std::size_t active_ = 0;  ///< index of policy_
  Nanos next_ = 0;
};

}  // namespace orrery::sim
