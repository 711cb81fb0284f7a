// Search for the layouts of a plan: a job on some of the reserved nodes of a cluster, with the
// layouts of `orrery layouts` and, where that is better, with nodes left as spares and a batch that
// differs a little. Called by sim/planning/plan. One thread; no state between calls. Seconds,
// bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/estimates/predict/layouts.hpp"
#include "sim/planning/found_layouts.hpp"
#include "sim/planning/long_run.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario/layout_question.hpp"
#include "traces/scenario/price_table.hpp"

namespace orrery::sim {

/// Question of a planner. Zero and empty values of `job` are assumed as by `orrery layouts`.
struct PlanQuestion {
  LayoutQuestion job;                 ///< its cluster and gpus are not read
  std::vector<std::string> clusters;  ///< presets or cluster files; each is a candidate
  std::vector<std::uint32_t> gpus;    ///< reserved GPUs, spares included; each is a candidate
  double tokens = 0;                  ///< length of the training
  std::optional<double> deadline_s, budget_usd;
  double confidence = 0.8;      ///< probability with which deadline and budget shall be met
  double batch_change = 0.05;   ///< largest change of the batch, as a share
  std::uint32_t seeds = 1000;   ///< played runs for each interval
  bool simulates_steps = true;  ///< simulate the step of the first rows (orrery-sim)
  std::string measured;         ///< table of measured runs, for the nearest one; may be empty
  std::vector<Recovery> recoveries = {Recovery::restart};  ///< ways to recover that are candidates
  std::string failures;         ///< section `failures` as YAML; empty: default_failures()
  std::vector<std::string> overrides;  ///< "path=value" of the scenario, from the user
  /// Instances, at most one for each GPU, and the grid whose prices replace those of the clusters.
  std::vector<PriceRow> instances = {};
  std::optional<PriceRow> grid = {};
  /// Layouts that other processes have found; clusters and sizes without an entry are searched.
  std::vector<FoundLayouts> found = {};
};

/// The job of a question on all reserved nodes of one cluster, before a layout is chosen.
struct PlanBasis {
  std::string name;   ///< preset or file of the cluster
  Scenario scenario;  ///< scenario with failures, recovery and checkpoints
  Cluster cluster;    ///< all reserved nodes
  std::vector<std::string> assumed;
  const FrameworkHabits* habits = nullptr;  ///< habits as in AskedScenario
  double tokens = 0;
};

/// Layout of the job on some of the reserved nodes.
struct Candidate {
  std::uint32_t job_nodes = 0;
  std::uint32_t global_batch = 0;
  estimates::PricedLayout priced;
  /// Tokens that the job trains per second without failures.
  double tokens_per_s = 0;
  RunPolicies policies = {};
};

/// Returns the default failures of a plan: the counts of Llama 3, hardware back after 6 h.
std::string default_failures();

/// Returns the basis of a question for `gpus` GPUs of `cluster`, a preset or file. Throws bad_input
/// as scenario_of(), for tokens, deadline or budget that are not positive, and for instances
/// without the cluster's GPU.
PlanBasis basis_of(const PlanQuestion& question, const std::string& cluster, std::uint32_t gpus);

/// Returns the job of the basis with the batch and the layout of a candidate.
Job job_of(const PlanBasis& basis, const Candidate& candidate);

/// Returns the cluster of the basis with another number of nodes.
Cluster cluster_of(const PlanBasis& basis, std::uint32_t nodes);

/// Returns priced layouts that fit, for each number of job nodes the fastest ones, those on all
/// reserved nodes with the batch of the question first, as `orrery layouts` ranks them. Empty if no
/// layout fits. `batch_change`: as in the question.
std::vector<Candidate> find_candidates(const PlanBasis& basis, double batch_change);

/// Returns the candidates of found layouts, priced again; those that do not fit are left out.
std::vector<Candidate> priced_again(const PlanBasis& basis, const FoundLayouts& found);

}  // namespace orrery::sim
