#include "sim/planning/plan_changes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "topologies/builder.hpp"
#include "topologies/power.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/layout_check.hpp"

namespace orrery::sim {
namespace {

constexpr std::uint32_t kSeeds = 100;

/// Power of the reserved nodes, in watts: the job's GPUs draw the power of their activities in the
/// steps that they work on, and wait in stalls and repairs; spare ones are idle.
double watts_of(const Cluster& cluster, const PlannedRun& row) {
  const GpuModel& gpu = cluster.gpu_model();
  const estimates::StepEstimate& step = row.layout.priced.estimate;
  const double working = std::min(1.0, row.outcome.goodput + row.outcome.shares.lost_work);
  const double gaps = std::max(0.0, step.compute_s - step.products_s - step.memory_s);
  const double in_step = mean_power(gpu, {step.products_s, step.memory_s,
                                          step.inside_s + step.exposed_s,
                                          step.pipeline_s + gaps, 0}).value;
  const double busy =
      in_step * working + power_of(gpu, Activity::waiting).value * (1 - working);
  return cluster.price().pue *
         (busy * row.job_gpus + gpu.idle_power.value * (row.gpus - row.job_gpus) +
          cluster.shape().host_power.value * cluster.nodes());
}

/// One change: of the basis and the candidate, or of the checkpoint interval.
struct Change {
  std::string name;
  std::function<void(PlanBasis&, Candidate&)> apply;
  double every = 1;         ///< factor on the interval of checkpoints
  std::uint32_t nodes = 0;  ///< additional reserved nodes
};

void rebuild(PlanBasis& basis) { basis.cluster = cluster_of(basis, basis.cluster.nodes()); }

template <class Message, class Get, class Set>
void scale(Message& message, Get get, Set set, double factor) {
  (message.*
   set)(static_cast<std::int64_t>(std::llround(static_cast<double>((message.*get)()) * factor)));
}

void double_network(PlanBasis& basis, Candidate&) {
  scale_network(*basis.scenario.mutable_cluster(), 2);
  rebuild(basis);
}

void add_spare(PlanBasis& basis, Candidate&) {
  Topology& cluster = *basis.scenario.mutable_cluster();
  cluster.set_nodes(cluster.nodes() + 1);
  basis.cluster = cluster_of(basis, cluster.nodes());
}

std::vector<Change> changes_of_run() {
  const auto survival = [](auto get, auto set) {
    return [get, set](PlanBasis& basis, Candidate&) {
      scale(*basis.scenario.mutable_survival(), get, set, 0.5);
    };
  };
  const auto checkpoints = [](auto get, auto set) {
    return [get, set](PlanBasis& basis, Candidate&) {
      scale(*basis.scenario.mutable_checkpoints(), get, set, 0.5);
    };
  };
  return {
      {"half as many failures",
       [](PlanBasis& basis, Candidate&) {
         Failures& failures = *basis.scenario.mutable_failures();
         failures.set_scale(failures.scale() / 2);
       }},
      {"hardware repaired in half the time",
       [](PlanBasis& basis, Candidate&) {
         Failures& failures = *basis.scenario.mutable_failures();
         failures.set_repair(std::max<std::int64_t>(1, failures.repair() / 2));
       }},
      {"one more spare node", add_spare, 1, 1},
      {"restart in half the time", survival(&Survival::restart, &Survival::set_restart)},
      {"detection in half the time", survival(&Survival::detection, &Survival::set_detection)},
      {"half the stall of a checkpoint", checkpoints(&Checkpoints::stall, &Checkpoints::set_stall)},
      {"checkpoint bandwidth x 2", checkpoints(&Checkpoints::write, &Checkpoints::set_write)},
      {"checkpoints twice as often", {}, 0.5},
      {"checkpoints half as often", {}, 2},
  };
}

std::vector<Change> changes_of_step(const LayoutChoice& choice) {
  const auto micro_batch = [](std::uint32_t size) {
    return [size](PlanBasis&, Candidate& candidate) { candidate.priced.choice.micro_batch = size; };
  };
  std::vector<Change> all{{"NICs and links between switches x 2", double_network},
                          {"micro-batch x 2", micro_batch(2 * choice.micro_batch)}};
  if (choice.micro_batch > 1) {
    all.push_back({"half the micro-batch", micro_batch(choice.micro_batch / 2)});
  }
  const bool recomputes = choice.recompute != Recompute::none;
  all.push_back({recomputes ? "no recomputation" : "full recomputation",
                 [recomputes](PlanBasis&, Candidate& candidate) {
                   candidate.priced.choice.recompute =
                       recomputes ? Recompute::none : Recompute::full;
                 }});
  return all;
}

/// Prices the changed candidate again; returns false if it cannot be.
bool reprice(const PlanBasis& basis, Candidate& candidate) {
  Job job = basis.scenario.job();
  job.set_global_batch(candidate.global_batch);
  if (!job_problems(laid_out(job, candidate.priced.choice)).empty()) return false;
  const estimates::LayoutBasis pricing{basis.habits, basis.assumed.empty()};
  candidate.priced = estimates::price_layout(job, cluster_of(basis, candidate.job_nodes), pricing,
                                             candidate.priced.choice);
  return candidate.priced.status == estimates::PricedLayout::Status::ok;
}

/// Returns the median end after a change, with failures alone; nothing if it is impossible.
std::optional<double> end_after(const Change& change, PlanBasis basis, const PlannedRun& row) {
  Candidate candidate = row.layout;
  if (change.apply) {
    change.apply(basis, candidate);
    if (!reprice(basis, candidate)) return {};
  }
  std::optional<std::uint64_t> every;
  if (change.every != 1) {
    every = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(
                                           static_cast<double>(row.run.every) * change.every)));
  }
  LongRun run = long_run_of(basis, candidate, every);
  run.step = to_nanos(to_seconds(run.step) * row.contention);
  Weather weather(basis, kSeeds);
  return failures_only(run, weather, kSeeds).p50;
}

}  // namespace

void scale_network(Topology& cluster, double factor) {
  NodeSpec& node = *cluster.mutable_node();
  node.set_nic_bandwidth(factor * node.nic_bandwidth());
  FabricSpec& fabric = *cluster.mutable_fabric();
  if (fabric.spine_link_bandwidth() > 0) {
    fabric.set_spine_link_bandwidth(factor * fabric.spine_link_bandwidth());
  }
  if (fabric.ring_link_bandwidth() > 0) {
    fabric.set_ring_link_bandwidth(factor * fabric.ring_link_bandwidth());
  }
  if (fabric.has_core_link_bandwidth()) {
    fabric.set_core_link_bandwidth(factor * fabric.core_link_bandwidth());
  }
  if (fabric.has_torus_link_bandwidth()) {
    fabric.set_torus_link_bandwidth(factor * fabric.torus_link_bandwidth());
  }
  if (fabric.has_local_link_bandwidth()) {
    fabric.set_local_link_bandwidth(factor * fabric.local_link_bandwidth());
    fabric.set_global_link_bandwidth(factor * fabric.global_link_bandwidth());
  }
}

void price_row(const PlanQuestion& question, const Cluster& cluster, PlannedRun& row) {
  const Outcome& outcome = row.outcome;
  const double rate = cluster.price().per_gpu.value * row.gpus;
  if (rate > 0) {
    const Quantiles& finish = outcome.finish_s;
    row.cost_usd = Quantiles{rate * finish.p10, rate * finish.p50, rate * finish.p90};
  }
  row.energy_j = watts_of(cluster, row) * outcome.finish_s.p50;
  const double carbon = cluster.price().carbon_g_per_kwh;
  if (carbon > 0) row.carbon_kg = row.energy_j / 3.6e6 * carbon / 1000;
  double in_time = 0, in_budget = 0, both = 0;
  for (const double end : outcome.ends_s) {
    const bool time = !question.deadline_s || end <= *question.deadline_s;
    const bool money = !question.budget_usd || rate * end <= *question.budget_usd;
    in_time += time;
    in_budget += money;
    both += time && money;
  }
  const double all = std::max<double>(1, static_cast<double>(outcome.ends_s.size()));
  if (question.deadline_s) row.deadline_met = in_time / all;
  if (question.budget_usd && rate > 0) row.within_budget = in_budget / all;
  row.goals_met = both / all;
}

std::vector<PlanChange> changes_of(const PlanBasis& basis, const PlannedRun& row) {
  Weather weather(basis, kSeeds);
  const double before = failures_only(row.run, weather, kSeeds).p50;
  const double rate = basis.cluster.price().per_gpu.value;
  std::vector<Change> tried = changes_of_run();
  for (Change& each : changes_of_step(row.layout.priced.choice)) tried.push_back(std::move(each));
  const bool restarts = row.run.recovery == Recovery::restart;
  if (restarts && can_recover(Recovery::replace, row.layout.priced.choice)) {
    tried.push_back({"lost ranks replaced with the state of another replica (recover: replace)",
                     [](PlanBasis&, Candidate& candidate) {
                       candidate.policies.recovery = Recovery::replace;
                     }});
  }
  std::vector<PlanChange> changes;
  for (const Change& each : tried) {
    const std::optional<double> end = end_after(each, basis, row);
    if (!end || !std::isfinite(*end)) continue;
    PlanChange made{each.name, before - *end, {}};
    const double gpus = row.gpus + double{1} * each.nodes * basis.cluster.shape().gpus_per_node;
    if (rate > 0) made.saved_usd = rate * (row.gpus * before - gpus * *end);
    changes.push_back(std::move(made));
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const PlanChange& a, const PlanChange& b) { return a.saved_s > b.saved_s; });
  return changes;
}

}  // namespace orrery::sim
