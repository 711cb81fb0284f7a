#include "sim/planning/graded_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "sim/estimates/predict/estimate.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::sim {
namespace {

constexpr std::uint32_t kSeeds = 60;
/// Shortest run for gains: a short one would meet no failure.
constexpr double kLeast_s = 30 * 86'400.0;
/// Repairs that are shorter than a reboot were not planned: the default is a second.
constexpr Nanos kReboot = 60 * kNanosPerSecond, kRepair = 6 * 3600 * kNanosPerSecond;

bool has_failures(const Scenario& scenario) {
  return !failure_kinds(scenario.failures()).empty() && scenario.failures().scale() > 0;
}

void assume_failures(Scenario& scenario) {
  Failures& failures = *scenario.mutable_failures();
  failures.Clear();
  failures.set_profile("llama3");
  failures.set_scale(1);
  failures.set_nodes_per_rack(4);
  failures.set_racks_per_row(10);
}

/// Returns the basis of the scenario: with failures, and with repairs that take a time.
PlanBasis basis_for(Scenario scenario, bool assumes) {
  if (assumes) assume_failures(scenario);
  Failures& failures = *scenario.mutable_failures();
  if (failures.repair() < kReboot) failures.set_repair(kRepair);
  Cluster cluster = build_cluster(scenario.cluster(), {}, "cluster");
  return {"", std::move(scenario), std::move(cluster), {}, nullptr, 0};
}

std::uint64_t ranks_of(const Job& job) {
  const Layout& layout = job.layout();
  return std::uint64_t{layout.tensor()} * std::max(1u, layout.context()) * layout.pipeline() *
         layout.data();
}

Candidate candidate_of(const PlanBasis& basis) {
  const Job& job = basis.scenario.job();
  Candidate made;
  const std::uint32_t each = basis.cluster.shape().gpus_per_node;
  made.job_nodes = static_cast<std::uint32_t>((ranks_of(job) + each - 1) / each);
  made.global_batch = job.global_batch();
  made.priced.choice = choice_of(job);
  made.priced.estimate = estimates::estimate_step(job, basis.cluster);
  return made;
}

/// Returns the long run; without checkpoints every loss costs all work.
LongRun run_of(const PlanBasis& basis, const Candidate& candidate) {
  std::optional<std::uint64_t> every;
  if (basis.scenario.has_checkpoints()) every = basis.scenario.checkpoints().every();
  LongRun run = long_run_of(basis, candidate, every);
  if (!every) run.every = run.steps + 1;
  // Spares elsewhere in the fabric do not matter to the rules.
  run.slowdown = {};
  return run;
}

/// Returns the tokens of the run: its own, or those of 30 days if these are more.
double tokens_of(const Scenario& scenario, double step_s) {
  const Job& job = scenario.job();
  const double batch = double{1} * job.global_batch() * job.sequence_length();
  const Run& run = scenario.run();
  const double own = run.has_tokens() ? static_cast<double>(run.tokens())
                                      : static_cast<double>(run.steps()) * batch;
  return std::max(own, std::ceil(kLeast_s / step_s) * batch);
}

}  // namespace

LayoutChoice choice_of(const Job& job) {
  const Layout& layout = job.layout();
  LayoutChoice choice;
  choice.tensor = layout.tensor();
  choice.context = std::max(1u, layout.context());
  choice.pipeline = layout.pipeline();
  choice.data = layout.data();
  choice.chunks = std::max(1u, layout.chunks());
  choice.expert = std::max(1u, layout.expert());
  choice.micro_batch = job.micro_batch();
  choice.shard = sharding_of(layout);
  choice.recompute = recompute_of(job);
  return choice;
}

GradedRun::GradedRun(const Scenario& scenario)
    : assumes_failures_(!has_failures(scenario)),
      basis_(basis_for(scenario, assumes_failures_)),
      candidate_(candidate_of(basis_)) {
  basis_.tokens = tokens_of(basis_.scenario, candidate_.priced.estimate.step_s);
  run_ = run_of(basis_, candidate_);
  Weather weather(basis_, kSeeds);
  const double step = to_seconds(run_.step);
  estimates::Interval exact;
  exact.p2_5_s = exact.p10_s = exact.p90_s = exact.p97_5_s = step;
  const Outcome outcome = play_seeds(run_, exact, weather);
  shares_ = outcome.shares;
  median_s_ = outcome.failures_only_s.p50;
}

double GradedRun::mtbf_s() const {
  const Failures& failures = basis_.scenario.failures();
  const double rate = failures.scale() * interruption_rate(failure_kinds(failures), job_nodes(),
                                                           cluster().shape().gpus_per_node);
  return rate > 0 ? 1 / rate : std::numeric_limits<double>::infinity();
}

double GradedRun::median_of(const PlanBasis& basis, const LongRun& run) const {
  Weather weather(basis, kSeeds);
  return failures_only(run, weather, kSeeds).p50;
}

PredictedGain GradedRun::gain_at(double seconds) const {
  if (!std::isfinite(seconds)) return {.reason = "half of the changed runs never end"};
  // A run that never ends is saved whole.
  return {.share = std::isfinite(median_s_) ? 1 - seconds / median_s_ : 1};
}

PredictedGain GradedRun::gain_of(const std::function<void(Scenario&)>& change) const {
  Scenario changed = basis_.scenario;
  change(changed);
  try {
    PlanBasis basis = basis_for(std::move(changed), false);
    basis.tokens = basis_.tokens;
    const Candidate candidate = candidate_of(basis);
    const double used = candidate.priced.estimate.memory.total().value;
    if (used > basis.cluster.gpu_model().memory.value && used > step().memory.total().value) {
      return {.reason = "the changed job needs more memory than a GPU has"};
    }
    return gain_at(median_of(basis, run_of(basis, candidate)));
  } catch (const Error& problem) {
    const std::string words = problem.what();
    return {.reason = "the change is impossible here: " + words.substr(0, words.find('\n'))};
  }
}

PredictedGain GradedRun::gain_of_step(double step_s) const {
  LongRun run = run_;
  run.step = std::max<Nanos>(1, to_nanos(step_s));
  return gain_at(median_of(basis_, run));
}

}  // namespace orrery::sim
