#include "sim/forecast/choice_rule.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery::sim {
namespace {

constexpr double kMemory = 0.96;  // factor on the sums for each forecast: about 25 forecasts

}  // namespace

ChoiceRule::ChoiceRule(std::vector<std::string> policies, ChoiceThresholds thresholds)
    : thresholds_(thresholds) {
  ensure(!policies.empty(), "a choice has candidates");
  for (std::string& policy : policies) candidates_.push_back({.policy = std::move(policy)});
}

/// Returns the policy with the smallest sum among those that were better for long enough.
std::size_t ChoiceRule::best_candidate() const {
  std::size_t best = chosen_;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const bool lasts = candidates_[i].better >= thresholds_.in_a_row;
    if (lasts && candidates_[i].sum < candidates_[best].sum) best = i;
  }
  return best;
}

std::optional<PolicySwitch> ChoiceRule::add_forecast(const std::vector<double>& goals, Nanos now) {
  ++forecasts_;
  weight_ = weight_ * kMemory + 1;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    candidate.sum = candidate.sum * kMemory + goals[i];
    candidate.better = goals[i] < goals[chosen_] ? candidate.better + 1 : 0;
  }
  if (forecasts_ < thresholds_.least_forecasts) return {};
  const std::size_t best = best_candidate();
  const Candidate &from = candidates_[chosen_], &to = candidates_[best];
  if (best == chosen_ || to.sum >= (1 - thresholds_.least_gain) * from.sum) return {};
  return change_to(best, {.at = now,
                          .from = {},
                          .to = {},
                          .forecast_from = from.sum / weight_,
                          .forecast_to = to.sum / weight_});
}

PolicySwitch ChoiceRule::return_to_first(double realised, double first, Nanos now) {
  thresholds_.least_gain = std::min(2 * thresholds_.least_gain, 1.0);
  return change_to(0, {.at = now,
                       .from = {},
                       .to = {},
                       .forecast_from = realised,
                       .forecast_to = first,
                       .is_return = true});
}

/// Completes and keeps the switch.
const PolicySwitch& ChoiceRule::change_to(std::size_t chosen, PolicySwitch made) {
  made.from = candidates_[chosen_].policy;
  made.to = candidates_[chosen].policy;
  made.forecasts = forecasts_;
  chosen_ = chosen;
  for (Candidate& each : candidates_) each.better = 0;
  switches_.push_back(std::move(made));
  return switches_.back();
}

}  // namespace orrery::sim
