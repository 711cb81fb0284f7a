// Rule that chooses among queue policies by their forecasts. Used by sim/forecast/policy_choice,
// which lets the chosen policy act, and by sim/forecast/twin, which only reports the choice. One
// thread; nanoseconds of the policy clock.
//
// A candidate takes over if the mean of its goal over the newest forecasts (older ones fade) is
// smaller than that of the active policy by `least_gain`, and if it was better in each of the last
// `in_a_row` forecasts. For example, with a gain of 25% and forecasts every hour, srtf takes over
// from fifo after a day in which it was forecast to cut the mean wait from 60 to 40 minutes. The
// gain is large because forecasts are wrong in the same direction for days. A switch whose realised
// cost proves too high is taken back (sim/forecast/choice_guard), and then needs twice the gain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

/// Change of the chosen policy.
struct PolicySwitch {
  Nanos at = 0;
  std::string from, to;
  /// means of the goal over the newest forecasts; of a return the realised mean, and the mean that
  /// the first policy would have had
  double forecast_from = 0, forecast_to = 0;
  std::uint64_t forecasts = 0;  ///< number of forecasts so far
  bool is_return = false;       ///< true: the realised cost was too high
};

/// Thresholds of the rule.
struct ChoiceThresholds {
  double least_gain = 0.25;  ///< fraction of the active policy's goal
  std::uint32_t least_forecasts = 24, in_a_row = 6;
};

/// State of the choice among at least one policy; the first is chosen at the beginning.
class ChoiceRule {
 public:
  ChoiceRule(std::vector<std::string> policies, ChoiceThresholds thresholds = {});

  /// Adds the forecasts of one instant: the goal of each policy, where smaller is better. Returns
  /// the switch that follows; nothing if the choice stays.
  std::optional<PolicySwitch> add_forecast(const std::vector<double>& goals, Nanos now);
  /// Chooses the first policy again, because the realised mean of the goal since the first policy
  /// was left exceeds `first`, the mean that the first policy would have had. Doubles the gain that
  /// later switches need. Returns the switch.
  PolicySwitch return_to_first(double realised, double first, Nanos now);
  /// Returns the index of the chosen policy.
  std::size_t chosen_policy() const { return chosen_; }
  /// Returns the switches so far.
  const std::vector<PolicySwitch>& switches() const { return switches_; }

 private:
  /// Forecasts of one policy: fading sum of its goal, and the number of forecasts in a row in which
  /// it was better than the chosen policy.
  struct Candidate {
    std::string policy;
    double sum = 0;
    std::uint32_t better = 0;
  };
  std::size_t best_candidate() const;
  const PolicySwitch& change_to(std::size_t chosen, PolicySwitch made);

  ChoiceThresholds thresholds_;
  std::vector<Candidate> candidates_;
  std::size_t chosen_ = 0;
  std::uint64_t forecasts_ = 0;
  double weight_ = 0;  ///< sum of the weights of all forecasts
  std::vector<PolicySwitch> switches_;
};

}  // namespace orrery::sim
