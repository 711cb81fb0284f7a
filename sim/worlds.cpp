#include "sim/worlds.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/chakra/trace_model.hpp"
#include "sim/contention/contention.hpp"
#include "sim/contention/simulated_paces.hpp"
#include "sim/engine/step_engine.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/recorded_jobs.hpp"
#include "sim/training/training_run.hpp"
#include "sim/world/sim_backend.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/scenario/fault_script.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::sim {
namespace {

Capabilities offered_in(const RunRequest& request) {
  const Scenario& scenario = request.scenario();
  if (request.has_replay()) return {.actions = Kinds<Action>::of<Assign>(), .settings = {}};
  if (scenario.has_job() || scenario.jobs_size() > 0) {
    return {.actions = Kinds<Action>::all(), .settings = Kinds<Setting>::all()};
  }
  if (scenario.has_recorded()) return {.actions = Kinds<Action>::of<Assign>(), .settings = {}};
  return {};
}

/// Returns a factory of one engine for all jobs of the world, large enough for the first placement
/// and for all later ones that need no more.
estimates::EngineFactory shared_engine(estimates::EngineRoom least) {
  // All copies have the same.
  const auto made = std::make_shared<std::shared_ptr<estimates::Engine>>();
  return [least, made](std::uint32_t hosts, std::uint32_t links) {
    std::shared_ptr<estimates::Engine>& engine = *made;
    if (engine == nullptr) {
      engine = step_engine(std::max(hosts, least.hosts), std::max(links, least.links));
    }
    if (engine->hosts() >= hosts && engine->links() >= links) return engine;
    throw Error(ErrorKind::bad_input,
                fmt::format("expected jobs of at most {} simulated workers and {} links, found {} "
                            "and {}; use a scenario with elastic: true",
                            engine->hosts(), engine->links(), hosts, links));
  };
}

/// The jobs of a log, and how they run; none if there is no log.
struct Log {
  std::vector<TraceJob> jobs;
  ReplayConditions conditions;
  EstimateChoice estimates;
  std::uint64_t seed = 1;

  bool simulated() const { return speed_of(conditions) == JobSpeed::simulated; }
};

Log log_of(const RunRequest& request) {
  if (request.has_replay()) {
    const JobReplay& replay = request.replay();
    const std::uint64_t seed = replay_seed(replay);
    const JobLogOptions reading{.strict = replay.strict(),
                                .gpus_per_node = replay.gpus_per_node()};
    return {.jobs = load_job_log(replay.trace(), reading).jobs,
            .conditions = replay.conditions(),
            .estimates = estimate_choice(replay, seed),
            .seed = seed};
  }
  const Scenario& scenario = request.scenario();
  if (!scenario.has_recorded()) return {};
  const std::filesystem::path path =
      std::filesystem::path(request.folder()) / scenario.recorded().trace();
  const std::uint64_t seed = scenario.run().seed();
  Log log{.jobs = load_job_trace(path.string()),
          .conditions = scenario.recorded().conditions(),
          .estimates = estimate_choice(scenario.recorded(), seed),
          .seed = seed};
  if (!log.conditions.outages().empty() || log.conditions.failures() > 0) {
    throw Error(ErrorKind::bad_input,
                "recorded.conditions: nodes go down under all jobs of a scenario: write 'faults' "
                "(recorded jobs do not feel them); outages are of orrery jobs");
  }
  return log;
}

/// Returns the job with as many replicas as policies can assign.
Job grown(Job job, bool elastic, const Cluster& cluster) {
  const std::uint32_t replica = StepGraph(job).ranks() / std::max(job.layout().data(), 1u);
  job.mutable_layout()->set_data(most_gpus(job, elastic, cluster.gpus()) / replica);
  return job;
}

/// Returns the room for all jobs at once: jobs that share links are simulated together.
estimates::EngineRoom room_for(const RunRequest& request, const Cluster& cluster, const Log& log) {
  estimates::EngineRoom room;
  const auto add_room = [&room](const estimates::EngineRoom& one) {
    room.hosts += one.hosts;
    room.links += one.links;
  };
  const auto add = [&](const Job& job, bool elastic) {
    const StepGraph graph(grown(job, elastic, cluster), /*even_shares=*/false);
    estimates::EngineRoom own = estimates::engine_room(cluster, graph, request.full_detail());
    // The replicas of another layout may have a stage on every rank.
    if (can_change_layout(job)) own.hosts = std::max(own.hosts, graph.ranks());
    add_room(own);
  };
  if (log.simulated()) add_room(room_for_jobs(log.conditions, cluster, log.jobs));
  if (request.scenario().has_job()) add(request.scenario().job(), request.scenario().elastic());
  for (const OtherJob& other : request.scenario().jobs()) add(other.job(), other.elastic());
  return room;
}

/// Returns the request of one job as if it were the only one: faults of ranks are the first job's,
/// faults of the cluster's parts affect all jobs.
RunRequest request_of(const RunRequest& whole, int number) {
  const OtherJob& other = whole.scenario().jobs(number);
  RunRequest request = whole;
  Scenario& scenario = *request.mutable_scenario();
  scenario.set_name(other.name());
  *scenario.mutable_job() = other.job();
  scenario.set_elastic(other.elastic());
  scenario.mutable_run()->set_steps(other.steps());
  scenario.clear_jobs();
  auto& faults = *scenario.mutable_faults();
  faults.erase(std::remove_if(faults.begin(), faults.end(),
                              [](const Fault& fault) { return !part_kind(fault); }),
               faults.end());
  if (scenario.has_failures()) {
    *scenario.mutable_failures() = without_job_kinds(scenario.failures());
  }
  request.clear_timeline();
  return request;
}

/// Adds the models of a scenario, in this order: the report describes the first one.
class WorldMaker {
 public:
  WorldMaker(const RunRequest& request, const Cluster& cluster, const ProgressSink& progress)
      : request_(request),
        scenario_(request.scenario()),
        cluster_(cluster),
        progress_(progress),
        log_(log_of(request)),
        world_(std::make_unique<SimBackend>(cluster, offered_in(request))),
        engine_(shared_engine(room_for(request, cluster, log_))) {}

  std::unique_ptr<SimBackend> make() {
    if (request_.has_replay()) {
      add_recorded();
      return std::move(world_);
    }
    if (scenario_.has_job()) {
      add_job(request_, {.first_gpu = 0}, progress_);
    } else if (scenario_.has_trace() || scenario_.has_collective()) {
      world_->add(
          std::make_unique<TraceModel>(request_, world_->world(), engine_, world_->teller()));
    }
    for (int i = 0; i < scenario_.jobs_size(); ++i) {
      const OtherJob& other = scenario_.jobs(i);
      TrainingRun::Arrival arrival{.at = other.submit(), .number = static_cast<unsigned>(i) + 1};
      if (other.has_first_gpu()) arrival.first_gpu = other.first_gpu();
      add_job(request_of(request_, i), arrival, {});
    }
    if (scenario_.has_recorded()) add_recorded();
    return std::move(world_);
  }

 private:
  void add_job(RunRequest request, const TrainingRun::Arrival& arrival,
               const ProgressSink& progress) {
    world_->add(std::make_unique<TrainingRun>(std::move(request), arrival, *world_, engine_,
                                              contention_, progress));
  }

  void add_recorded() {
    RunConditions conditions = run_conditions(log_.conditions, cluster_, log_.seed);
    if (log_.simulated()) {
      conditions.paces = std::make_shared<SimulatedPaces>(log_.conditions, cluster_, engine_,
                                                          contention_);
    }
    world_->add(std::make_unique<RecordedJobs>(std::move(log_.jobs), world_->world(),
                                               world_->teller(), std::move(log_.estimates),
                                               std::move(conditions)));
  }

  const RunRequest& request_;
  const Scenario& scenario_;
  const Cluster& cluster_;
  const ProgressSink& progress_;
  Log log_;
  std::unique_ptr<SimBackend> world_;
  const estimates::EngineFactory engine_;
  const std::shared_ptr<Contention> contention_ = std::make_shared<Contention>();
};

}  // namespace

std::unique_ptr<RunBackend> simulated_world(const RunRequest& request, const Cluster& cluster,
                                            const ProgressSink& progress) {
  return WorldMaker(request, cluster, progress).make();
}

}  // namespace orrery::sim
