// Recommendation for a training: which GPUs, layout, spares and checkpoints, until when, for how
// much, and how sure. Called by `orrery plan` and orrery.plan(). One thread; no state between
// calls. Seconds, bytes, USD, joules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/planning/candidates.hpp"
#include "sim/planning/nearest_run.hpp"
#include "sim/planning/outcomes.hpp"
#include "sim/planning/run_policies.hpp"

namespace orrery::sim {

/// One row of a plan.
struct PlannedRun {
  std::string cluster;         ///< preset or cluster file
  std::uint32_t gpus = 0;      ///< reserved GPUs
  std::uint32_t job_gpus = 0;  ///< GPUs with ranks; the others are spares
  std::uint32_t spare_nodes = 0;
  Candidate layout;
  LongRun run;  ///< run with contention in its step
  ChosenPolicies policies;  ///< chosen by failures without contention
  /// Simulated step, in which flows share links, over its price; 1 if the step was not simulated.
  double contention = 1;
  Outcome outcome;
  double memory_bytes = 0;  ///< memory of a GPU of the fullest stage
  double gpu_memory_bytes = 0;
  std::optional<Quantiles> cost_usd;  ///< cost of all reserved GPUs; nothing without a price
  double energy_j = 0;                ///< energy of all reserved GPUs until the median date
  std::optional<double> carbon_kg;    ///< nothing without price.carbon
  std::optional<double> deadline_met, within_budget;  ///< probabilities
  double goals_met = 1;  ///< probability that deadline and budget are met together
  Scenario scenario;     ///< complete, for `orrery simulate`
};

/// Effect of one change of the recommended run, with the same failures.
struct PlanChange {
  std::string change;  ///< for example "NICs twice as fast"
  double saved_s = 0;  ///< gain on the median date of failures alone; negative: later
  std::optional<double> saved_usd;
};

/// Ranked rows with the reasons for the first one.
struct Plan {
  std::vector<PlannedRun> rows;      ///< best first; at most 40
  std::string order;                 ///< rule of the ranking
  std::string why;                   ///< comparison of the first row with the second
  std::vector<PlanChange> changes;   ///< changes of the first row, the most helpful first
  std::vector<std::string> assumed;  ///< each with its source
  std::vector<std::string> warnings;
  std::string distance;               ///< basis of the first row's step price (Interval::distance)
  std::string state;                  ///< Interval::state of the first row
  std::optional<NearestRun> nearest;  ///< measured run nearest to the first row
};

/// Returns the plan. Throws bad_input as basis_of(), and if clusters or GPUs are missing. No row
/// means that no layout fits; the reason is then in `why`.
Plan make_plan(const PlanQuestion& question);

/// Returns the clusters and sizes (GPUs in whole nodes) that make_plan() searches, each of which
/// find_layouts() can search in a process of its own. Throws as make_plan().
std::vector<std::pair<std::string, std::uint32_t>> plan_tasks(const PlanQuestion& question);

/// Returns the layouts of one cluster and size whose rows make_plan() would add. A question with
/// the results of all plan_tasks() in `found` has the plan of a question without them.
FoundLayouts find_layouts(const PlanQuestion& question, const std::string& cluster,
                          std::uint32_t gpus);

}  // namespace orrery::sim
