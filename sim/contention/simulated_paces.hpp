// Paces of recorded jobs from their step graphs: step time alone on the first GPUs of the cluster
// divided by the step time at the job's place, beside the jobs that share its links. The log's
// duration counts as that of a job alone on the first GPUs. Step times at a place, and those of a
// group of jobs, are simulated once and cached. Used by sim/worlds; one thread. Jobs without a kind
// run as recorded and share no links; so do jobs within an NVLink domain.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/contention/contention.hpp"
#include "sim/contention/job_paces.hpp"
#include "sim/estimates/engine/engine.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Simulated speeds of recorded jobs. For example, a step of 1 s alone that takes 1.25 s beside a
/// neighbour gives the pace 0.8.
class SimulatedPaces : public JobPaces {
 public:
  /// Constructs the paces. `conditions` are complete. `contention`: shared with the other jobs of
  /// the world. `cluster` must outlive this object.
  SimulatedPaces(ReplayConditions conditions, const Cluster& cluster,
                 estimates::EngineFactory engine, std::shared_ptr<Contention> contention);
  ~SimulatedPaces() override;

  /// Adds a job, and enters contention unless its GPUs are within one NVLink domain. Ignores a job
  /// without a kind, which runs as recorded. May simulate steps for the reference. The pace is
  /// returned by the next drain_changes(). `gpus` is not empty. Throws bad_input if the engine
  /// lacks room (room_for_jobs()).
  void enter_job(JobId id, const TraceJob& job, const GpuRuns& gpus) override;
  /// Removes the job, also from contention, which may change the paces of jobs on the same links;
  /// does nothing for an unknown job.
  void remove_job(JobId id) override;
  /// Returns the new paces, by job id; simulates the steps of new jobs and of changed groups of
  /// jobs that share links, unless cached.
  std::vector<Change> drain_changes(Nanos now) override;

 private:
  struct Fit;  // a kind of job at a place
  /// Running job.
  struct Running {
    std::shared_ptr<Fit> fit;
    double reference = 0;                       ///< seconds of its step alone on the first GPUs
    std::optional<std::uint64_t> company = {};  ///< group of the newest reported pace
    double pace = 0;                            ///< newest reported pace
  };
  /// Kind of a job and its number of GPUs.
  using Shape = std::pair<std::size_t, std::uint32_t>;
  /// first GPU, count, ... of each run
  using Place = std::pair<Shape, std::vector<std::uint32_t>>;

  std::shared_ptr<Fit> fit(Shape shape, const GpuRuns& gpus);
  double step_time_alone(Fit& fit);
  double reference(Shape shape);
  bool within_domain(const GpuRuns& gpus) const;
  GpuRuns in_first_domain(const GpuRuns& gpus) const;

  const ReplayConditions conditions_;
  const Cluster& cluster_;
  const estimates::EngineFactory engine_;
  const std::shared_ptr<Contention> contention_;
  std::map<Place, std::shared_ptr<Fit>> fits_;
  std::map<Shape, double> references_;
  std::map<JobId, Running> running_;
};

/// Returns the room that an engine needs for jobs of these sizes, however many run at once; none if
/// no job has a kind and fits the cluster.
estimates::EngineRoom room_for_jobs(const ReplayConditions& conditions, const Cluster& cluster,
                                    const std::vector<TraceJob>& jobs);

}  // namespace orrery::sim
