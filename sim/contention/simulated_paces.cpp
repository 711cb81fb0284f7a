#include "sim/contention/simulated_paces.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "policies/seam/job.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "traces/scenario/replay_conditions.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {
namespace {

/// Places that are remembered, beside those where jobs stand now.
constexpr std::size_t kMostFits = 4096;
/// Paces closer than this are one: rounding must not make a job a nanosecond longer.
constexpr double kSame = 1e-9;

/// Returns the number of jobs that fit at most.
std::uint32_t times(std::uint32_t each, double jobs) {
  return static_cast<std::uint32_t>(std::min(std::ceil(each * jobs), 4e9));
}

}  // namespace

struct SimulatedPaces::Fit {
  Fit(const Job& job, std::vector<GpuId> gpus, const Cluster& cluster,
      const estimates::EngineFactory& engine)
      : graph(job),
        placement(std::move(gpus)),
        micro_batches(even_split(graph.micro_batches(), graph.data())),
        stepper(cluster, graph, placement, {}, engine) {}

  StepGraph graph;
  const std::vector<GpuId> placement;
  const std::vector<std::uint32_t> micro_batches;
  estimates::Stepper stepper;
  std::optional<std::vector<LinkId>> links;  ///< links of its flows, once computed
};

SimulatedPaces::SimulatedPaces(ReplayConditions conditions, const Cluster& cluster,
                               estimates::EngineFactory engine,
                               std::shared_ptr<Contention> contention)
    : conditions_(std::move(conditions)),
      cluster_(cluster),
      engine_(std::move(engine)),
      contention_(std::move(contention)) {}

SimulatedPaces::~SimulatedPaces() = default;

bool SimulatedPaces::within_domain(const GpuRuns& gpus) const {
  const std::uint32_t domain = cluster_.domain_of(gpus.front());
  return std::all_of(gpus.runs().begin(), gpus.runs().end(), [&](const GpuRuns::Run& run) {
    return cluster_.domain_of({run.first}) == domain &&
           cluster_.domain_of({run.first + run.count - 1}) == domain;
  });
}

/// Domains are equal: a job within one takes as long in each.
GpuRuns SimulatedPaces::in_first_domain(const GpuRuns& gpus) const {
  const std::uint32_t before = cluster_.domain_of(gpus.front()) * cluster_.gpus_per_domain();
  GpuRuns moved;
  for (const GpuRuns::Run& run : gpus.runs()) moved.append_run({run.first - before, run.count});
  return moved;
}

std::shared_ptr<SimulatedPaces::Fit> SimulatedPaces::fit(Shape shape, const GpuRuns& gpus) {
  Place place{shape, {}};
  for (const GpuRuns::Run& run : gpus.runs()) {
    place.second.insert(place.second.end(), {run.first, run.count});
  }
  if (const auto known = fits_.find(place); known != fits_.end()) return known->second;
  if (fits_.size() >= kMostFits) {
    std::erase_if(fits_, [](const auto& each) { return each.second.use_count() == 1; });
  }
  const Job job = job_on(conditions_.kinds(static_cast<int>(shape.first)), shape.second);
  auto made = std::make_shared<Fit>(job, gpus.to_vector(), cluster_, engine_);
  fits_.emplace(std::move(place), made);
  return made;
}

double SimulatedPaces::step_time_alone(Fit& fit) {
  return fit.stepper.step({}, fit.micro_batches)->run.duration;
}

double SimulatedPaces::reference(Shape shape) {
  const auto known = references_.find(shape);
  if (known != references_.end()) return known->second;
  const double step = step_time_alone(*fit(shape, GpuRuns::range({0}, shape.second)));
  return references_.emplace(shape, step).first->second;
}

void SimulatedPaces::enter_job(JobId id, const TraceJob& job, const GpuRuns& gpus) {
  const auto kind = kind_of(conditions_, job.name.str(), job.gpus);
  if (!kind) return;
  const Shape shape{*kind, job.gpus};
  const bool within = within_domain(gpus);
  Running& running = running_[id];
  running = {.fit = fit(shape, within ? in_first_domain(gpus) : gpus),
             .reference = reference(shape)};
  if (within) return;
  Fit& fit = *running.fit;
  if (!fit.links) fit.links = fit.stepper.links_crossed_by({}, fit.micro_batches);
  contention_->enter_job(id, {.stepper = {running.fit, &fit.stepper},
                          .state = {},
                          .micro_batches = fit.micro_batches,
                          .links = fit.links,
                          .steady = true});
}

void SimulatedPaces::remove_job(JobId id) {
  if (running_.erase(id) > 0) contention_->remove_job(id);
}

std::vector<JobPaces::Change> SimulatedPaces::drain_changes(Nanos now) {
  std::vector<Change> changes;
  for (auto& [id, job] : running_) {
    const std::uint64_t company = contention_->company(id);
    if (job.company == company) continue;
    job.company = company;
    const auto beside = contention_->step(id, now);
    const double step = beside ? beside->run.duration : step_time_alone(*job.fit);
    double pace = job.reference / step;
    if (std::abs(pace - 1) < kSame) pace = 1;
    if (pace == job.pace) continue;
    job.pace = pace;
    changes.push_back({id, pace});
  }
  return changes;
}

/// Jobs at once have no more GPUs than there are: whoever needs most for each of its GPUs sets it.
estimates::EngineRoom room_for_jobs(const ReplayConditions& conditions, const Cluster& cluster,
                                    const std::vector<TraceJob>& jobs) {
  std::set<std::pair<std::size_t, std::uint32_t>> shapes;
  for (const TraceJob& job : jobs) {
    const auto kind = kind_of(conditions, job.name.str(), job.gpus);
    if (kind && job.gpus <= cluster.gpus()) shapes.emplace(*kind, job.gpus);
  }
  estimates::EngineRoom room;
  for (const auto& [kind, gpus] : shapes) {
    const StepGraph graph(job_on(conditions.kinds(static_cast<int>(kind)), gpus));
    const estimates::EngineRoom one = estimates::engine_room(cluster, graph, false);
    const double at_once = static_cast<double>(cluster.gpus()) / gpus;
    room.hosts = std::max(room.hosts, times(one.hosts, at_once));
    room.links = std::max(room.links, times(one.links, at_once));
  }
  return room;
}

}  // namespace orrery::sim
