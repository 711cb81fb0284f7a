// Queue policy that chooses among several policies by forecasts: at fixed intervals the futures of
// the queue are simulated under each candidate, and sim/forecast/choice_rule says which policy
// acts. One thread; nanoseconds of the policy clock.
#pragma once

#include <functional>
#include <memory>
#include <vector>

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
    FutureOptions futures = {.samples = 8};
    ChoiceThresholds thresholds;
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
  void set_parameter(const ParameterSet& set);
  void forecast(const Observation& seen);
  void activate_chosen(Context& context, const Cluster& cluster);

  Options options_;
  QueueLearner learner_;
  ChoiceRule rule_;
  std::unique_ptr<Policy> policy_;
  std::size_t active_ = 0;  ///< index of policy_
  Nanos next_ = 0;
};

}  // namespace orrery::sim
