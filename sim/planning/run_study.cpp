#include "sim/planning/run_study.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/planning/plan_changes.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {
namespace {

/// Grounds that are kept: those of a slider's last positions.
constexpr std::size_t kKept = 8;

/// Returns true if the override leaves the job, its nodes and the network as they are.
bool keeps_steps(const std::string& override) {
  if (override.starts_with("cluster.price.")) return true;
  return override.starts_with("failures.") || override.starts_with("survival.") ||
         override.starts_with("live.") || override.starts_with("checkpoints.");
}

/// Returns the overrides that change which failures are drawn.
std::vector<std::string> of_failures(const std::vector<std::string>& overrides) {
  std::vector<std::string> found;
  for (const std::string& each : overrides) {
    const bool other = each.starts_with("survival.") || each.starts_with("live.") ||
                       each.starts_with("checkpoints.") || each.starts_with("cluster.price.");
    if (!other) found.push_back(each);
  }
  return found;
}

/// Prices the row's layout on the basis; throws bad_input with the reason if it is impossible.
void reprice(const PlanBasis& basis, PlannedRun& row) {
  Job job = basis.scenario.job();
  job.set_global_batch(row.layout.global_batch);
  const auto problems = job_problems(laid_out(job, row.layout.priced.choice));
  if (!problems.empty()) throw Error(ErrorKind::bad_input, problems.front().message);
  estimates::PricedLayout priced =
      estimates::price_layout(job, cluster_of(basis, row.layout.job_nodes),
                              {basis.habits, basis.assumed.empty()}, row.layout.priced.choice);
  if (priced.status != estimates::PricedLayout::Status::ok) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected a layout that fits, found {}: {}",
                            estimates::name_of(priced.status), priced.reason));
  }
  const double batch_tokens = double{1} * row.layout.global_batch * job.sequence_length();
  row.layout.tokens_per_s = batch_tokens / priced.estimate.step_s;
  row.layout.priced = std::move(priced);
  row.memory_bytes = row.layout.priced.estimate.memory.total().value;
}

void scale_step(double factor, estimates::PricedLayout& priced) {
  if (!(factor > 0 && factor < 1e6)) {
    throw Error(ErrorKind::usage,
                fmt::format("expected a factor on the step time above 0, found {}", factor));
  }
  for (double* each : {&priced.estimate.step_s, &priced.interval.p2_5_s, &priced.interval.p10_s,
                       &priced.interval.p90_s, &priced.interval.p97_5_s}) {
    *each *= factor;
  }
}

}  // namespace

/// Failures of a cluster, with the basis to which they refer.
struct RunStudy::Sky {
  Sky(const PlanBasis& of, std::uint32_t seeds) : basis(of), weather(basis, seeds) {}
  Sky(const Sky&) = delete;
  Sky& operator=(const Sky&) = delete;

  const PlanBasis basis;
  Weather weather;
};

struct RunStudy::Ground {
  const PlanBasis basis;
  const std::vector<std::string> overrides;
  std::shared_ptr<Sky> sky;
};

RunStudy::RunStudy(PlanQuestion question, Plan plan)
    : question_(std::move(question)), plan_(std::move(plan)) {}

RunStudy::~RunStudy() = default;

std::unique_ptr<RunStudy> RunStudy::with_first_seeds(std::uint32_t seeds) const {
  if (seeds < 10 || seeds > question_.seeds) {
    throw Error(ErrorKind::usage,
                fmt::format("expected 10 to {} seeds, found {}", question_.seeds, seeds));
  }
  PlanQuestion fewer = question_;
  fewer.seeds = seeds;
  return std::make_unique<RunStudy>(std::move(fewer), plan_);
}

const PlannedRun& RunStudy::row_at(std::size_t row) const {
  if (row < plan_.rows.size()) return plan_.rows[row];
  throw Error(ErrorKind::usage,
              fmt::format("expected a row from 1 to {}, found {}", plan_.rows.size(), row + 1));
}

RunStudy::Ground& RunStudy::ground_of(const std::string& cluster, std::uint32_t gpus,
                                      const std::vector<std::string>& overrides) {
  const auto known = std::find_if(grounds_.begin(), grounds_.end(), [&](const auto& each) {
    return each->basis.name == cluster && each->basis.cluster.gpus() == gpus &&
           each->overrides == overrides;
  });
  if (known != grounds_.end()) {
    std::rotate(known, known + 1, grounds_.end());
    return *grounds_.back();
  }
  PlanQuestion asked = question_;
  asked.overrides.insert(asked.overrides.end(), overrides.begin(), overrides.end());
  PlanBasis basis = basis_of(asked, cluster, gpus);
  std::shared_ptr<Sky> sky = sky_of(basis, overrides);
  auto made = std::make_unique<Ground>(Ground{std::move(basis), overrides, std::move(sky)});
  if (grounds_.size() == kKept) grounds_.erase(grounds_.begin());
  grounds_.push_back(std::move(made));
  return *grounds_.back();
}

std::shared_ptr<RunStudy::Sky> RunStudy::sky_of(const PlanBasis& basis,
                                                const std::vector<std::string>& overrides) {
  const std::vector<std::string> drawn = of_failures(overrides);
  for (const auto& each : grounds_) {
    const bool alike = each->basis.name == basis.name &&
                       each->basis.cluster.gpus() == basis.cluster.gpus() &&
                       of_failures(each->overrides) == drawn;
    if (alike) return each->sky;
  }
  return std::make_shared<Sky>(basis, question_.seeds);
}

LongRun RunStudy::run_of(std::size_t index, const PlannedRun& changed, const PlanBasis& basis,
                         const std::vector<std::string>& overrides,
                         std::optional<std::uint64_t> every) {
  if (!std::all_of(overrides.begin(), overrides.end(), keeps_steps)) {
    return long_run_of(basis, changed.layout, every);
  }
  const PlannedRun& planned = row_at(index);
  if (changed.gpus == planned.gpus) {
    return long_run_of(basis, changed.layout, every, &planned.run.slowdown);
  }
  const auto known = slowdowns_.find({index, changed.gpus});
  if (known != slowdowns_.end()) {
    return long_run_of(basis, changed.layout, every, &known->second);
  }
  LongRun run = long_run_of(basis, changed.layout, every);
  slowdowns_.insert({{index, changed.gpus}, run.slowdown});
  return run;
}

RunStudy::Changed RunStudy::changed_row(std::size_t index, const RunChanges& changes) {
  Changed changed{.row = row_at(index)};
  PlannedRun& row = changed.row;
  if (changes.spare_nodes) row.spare_nodes = *changes.spare_nodes;
  const std::uint32_t of_node = row.job_gpus / row.layout.job_nodes;
  row.gpus = (row.layout.job_nodes + row.spare_nodes) * of_node;
  changed.ground = &ground_of(row.cluster, row.gpus, changes.overrides);
  const PlanBasis& basis = changed.ground->basis;
  if (!std::all_of(changes.overrides.begin(), changes.overrides.end(), keeps_steps)) {
    reprice(basis, row);
  }
  if (changes.step_factor != 1) scale_step(changes.step_factor, row.layout.priced);
  // The fixed interval of a user is that of the row.
  const bool fixed = std::any_of(
      question_.overrides.begin(), question_.overrides.end(),
      [](const std::string& each) { return each.starts_with("checkpoints.every="); });
  std::optional<std::uint64_t> every = changes.every;
  if (!every && fixed) every = row.run.every;
  row.run = run_of(index, row, basis, changes.overrides, every);
  row.run.step = to_nanos(row.layout.priced.estimate.step_s * row.contention);
  return changed;
}

PlannedRun RunStudy::play_row(std::size_t index, const RunChanges& changes) {
  Changed changed = changed_row(index, changes);
  PlannedRun& row = changed.row;
  row.outcome = play_seeds(row.run, row.layout.priced.interval, changed.ground->sky->weather);
  price_row(question_, changed.ground->basis.cluster, row);
  return std::move(row);
}

std::vector<StudiedCourse> RunStudy::courses(std::size_t index, const RunChanges& changes) {
  Changed changed = changed_row(index, changes);
  LongRun& run = changed.row.run;
  Weather& weather = changed.ground->sky->weather;
  const double step = to_seconds(run.step);
  std::vector<StudiedCourse> all;
  for (std::size_t seed = 0; seed < weather.seeds(); ++seed) {
    StudiedCourse course;
    course.step_s =
        step * step_factor(changed.row.layout.priced.interval, step, weather.error(seed));
    run.step = std::max<Nanos>(1, to_nanos(course.step_s));
    play_run(run, weather.failures(seed), &course.points);
    all.push_back(std::move(course));
  }
  return all;
}

std::vector<MemoryUse> RunStudy::memory(std::size_t row) const {
  const StepGraph graph(row_at(row).scenario.job());
  std::vector<MemoryUse> stages;
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    stages.push_back(graph.memory(stage, graph.micro_batches() / graph.data()));
  }
  return stages;
}

std::vector<OperatorUse> RunStudy::operators(std::size_t row) const {
  const PlannedRun& run = row_at(row);
  return operators_of(run.scenario.job(), basis_of(question_, run.cluster, run.gpus).cluster);
}

GpuFacts RunStudy::gpu(std::size_t row) const {
  const PlannedRun& run = row_at(row);
  const Cluster cluster = basis_of(question_, run.cluster, run.gpus).cluster;
  const GpuModel& gpu = cluster.gpu_model();
  return {gpu.name, gpu.memory_bandwidth.value, gpu.memory.value};
}

}  // namespace orrery::sim
