// Paces of recorded jobs from their step graphs: how long a step takes on the GPUs that a job has
// got, beside those it meets on links, over what it takes alone on the first GPUs of the cluster.
// The log's duration counts as that of a job that stands there alone. What a job takes at a place,
// and what a company of jobs takes, is simulated once and remembered. Used by sim/worlds; one
// thread.
//
// Jobs of no kind go as recorded and meet nobody; so does what stays within an NVLink domain.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/jobs/contention.hpp"
#include "sim/jobs/job_paces.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

class SimulatedPaces : public JobPaces {
 public:
  /// `conditions` are complete. `contention`: with the other jobs of the world.
  SimulatedPaces(ReplayConditions conditions, const Cluster& cluster,
                 estimates::EngineFactory engine, std::shared_ptr<Contention> contention);
  ~SimulatedPaces() override;

  void enter(JobId id, const TraceJob& job, const GpuRuns& gpus) override;
  void leave(JobId id) override;
  std::vector<Change> changes(Nanos now) override;

 private:
  struct Fit;  // a kind of job at a place
  struct Running {
    std::shared_ptr<Fit> fit;
    double reference = 0;                       ///< its step alone on the first GPUs, seconds
    std::optional<std::uint64_t> company = {};  ///< whose pace has been told
    double pace = 0;                            ///< told
  };
  /// Kind and number of GPUs.
  using Shape = std::pair<std::size_t, std::uint32_t>;
  using Place = std::pair<Shape, std::vector<std::uint32_t>>;  ///< and GPUs: first, count, ...

  std::shared_ptr<Fit> fit(Shape shape, const GpuRuns& gpus);
  double alone(Fit& fit);
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

/// What a world needs of an engine for jobs of these sizes, however many there are at once.
estimates::EngineRoom room_for_jobs(const ReplayConditions& conditions, const Cluster& cluster,
                                    const std::vector<TraceJob>& jobs);

}  // namespace orrery::sim
