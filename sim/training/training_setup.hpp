// Constant description of one training job of a simulated world: its scenario, its arrival and its
// cluster. Read by every function of the job; nothing changes it. Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "core/random.hpp"
#include "core/units.hpp"
#include "sim/training/power_limits.hpp"
#include "topologies/cluster.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

/// Description of one training job. For example, {.request = request, .arrival = {.first_gpu = 0},
/// .cluster = &cluster} is a job that is submitted at 0 and placed on the GPUs from 0 on.
struct TrainingSetup {
  /// Submission of the job, and its first placement. Without a placement, or if its GPUs are taken,
  /// the job waits until a policy assigns it.
  struct Arrival {
    Nanos at = 0;
    std::optional<std::uint32_t> first_gpu = {};
    std::uint32_t number = 0;  ///< index among the scenario's jobs, for different noise
  };
  RunRequest request;
  Arrival arrival = {};
  const Cluster* cluster = nullptr;  ///< not null; must outlive the setup
  /// Limits of the scenario's power budget.
  PowerLimits power{request.scenario().power(), cluster};

  const Scenario& scenario() const { return request.scenario(); }
  const Survival& survival() const { return request.scenario().survival(); }
  /// Returns the seed of the job's noise in a run with the seed `run`: the first job's noise is the
  /// run's own.
  std::uint64_t noise_seed(std::uint64_t run) const {
    if (arrival.number == 0) return run;
    return Rng(run).split_stream(fmt::format("job {}", arrival.number)).next();
  }
};

}  // namespace orrery::sim
