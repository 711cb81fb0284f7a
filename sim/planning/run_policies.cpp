#include "sim/planning/run_policies.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/schema/names.hpp"
#include "policies/parameters.pb.h"

namespace orrery::sim {
namespace {

constexpr std::size_t kPolicySeeds = 100;
/// Least gain of a choice, as a share of the run: smaller ones are noise of the played seeds.
constexpr double kLeastGain = 5e-4;
constexpr double kSecondsOfADay = 86'400;

/// Returns the sets of policies to play, the default first.
std::vector<RunPolicies> sets_of(const PlanQuestion& question, const LayoutChoice& choice,
                                 bool has_interval) {
  std::vector<RunPolicies> sets;
  for (const double interval : {1.0, 0.5, 2.0}) {
    if (has_interval && interval != 1) continue;
    for (const Recovery each : question.recoveries) {
      if (can_recover(each, choice)) sets.push_back({each, interval});
    }
  }
  if (sets.empty()) sets.push_back({});
  return sets;
}

/// Returns the use of time whose share falls most from one outcome to the other, in words.
std::string largest_saving(const TimeShares& before, const TimeShares& after) {
  const std::vector<std::pair<const char*, double TimeShares::*>> uses{
      {"stalls for checkpoints", &TimeShares::checkpoints},
      {"lost work", &TimeShares::lost_work},
      {"detection", &TimeShares::detection},
      {"recovery", &TimeShares::recovery},
      {"waiting for hardware", &TimeShares::waiting},
      {"longer steps on spare nodes", &TimeShares::displaced}};
  const auto most = std::max_element(uses.begin(), uses.end(), [&](const auto& a, const auto& b) {
    return before.*a.second - after.*a.second < before.*b.second - after.*b.second;
  });
  return fmt::format("{} {:.2f}% instead of {:.2f}% of the time", most->first,
                     100 * after.*most->second, 100 * before.*most->second);
}

std::string tried_words(const TriedPolicies& tried) {
  return fmt::format("{} with a checkpoint every {} steps", name_of(tried.policies.recovery),
                     tried.every);
}

}  // namespace

bool can_recover(Recovery recovery, const LayoutChoice& choice) {
  if (recovery != Recovery::replace) return true;
  return choice.data > 1 &&
         (choice.shard == Sharding::nothing || choice.shard == Sharding::optimizer);
}

ChosenPolicies choose_policies(const PlanQuestion& question, const PlanBasis& basis,
                               const Candidate& candidate, std::optional<std::uint64_t> every,
                               const Slowdown& slowdown, Weather& weather) {
  ChosenPolicies choice;
  std::vector<Outcome> outcomes;
  for (const RunPolicies& each :
       sets_of(question, candidate.priced.choice, every.has_value())) {
    Candidate with = candidate;
    with.policies = each;
    const LongRun run = long_run_of(basis, with, every, &slowdown);
    const auto alike = [&](const TriedPolicies& other) {
      return other.policies.recovery == each.recovery && other.every == run.every;
    };
    if (std::any_of(choice.tried.begin(), choice.tried.end(), alike)) continue;
    outcomes.push_back(play_alone(run, weather, kPolicySeeds));
    choice.tried.push_back({each, run.every, outcomes.back().failures_only_s.p50});
  }
  const auto ends_first = [](const auto& a, const auto& b) { return a.end_s < b.end_s; };
  auto best = std::min_element(choice.tried.begin(), choice.tried.end(), ends_first);
  const TriedPolicies& usual = choice.tried.front();
  if (!(usual.end_s - best->end_s > kLeastGain * best->end_s)) best = choice.tried.begin();
  choice.policies = best->policies;
  const auto at = static_cast<std::size_t>(best - choice.tried.begin());
  if (at == 0) {
    choice.why = fmt::format("{}: none of {} other sets of policies saves {:.2f}% of the run",
                             tried_words(usual), choice.tried.size() - 1, 100 * kLeastGain);
    return choice;
  }
  choice.gain_s = usual.end_s - best->end_s;
  choice.why = tried_words(*best) + " instead of " + tried_words(usual);
  if (!std::isfinite(usual.end_s)) {
    choice.why += ", with which half of the runs never end";
    return choice;
  }
  choice.why += fmt::format(" saves {:.2f} d: {}", choice.gain_s / kSecondsOfADay,
                            largest_saving(outcomes.front().shares, outcomes[at].shares));
  return choice;
}

void set_recovery(Recovery recovery, Scenario& scenario) {
  for (PolicySpec& each : *scenario.mutable_policies()) {
    RecoverParameters parameters;
    if (!each.parameters().UnpackTo(&parameters)) continue;
    parameters.set_how(std::string(name_of(recovery)));
    each.mutable_parameters()->PackFrom(parameters);
  }
}

}  // namespace orrery::sim
