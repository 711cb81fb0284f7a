// Fits of a training job to its placements: the first one, the current one, and the last few
// others, whose steps are cached. Also numbers all GPUs that the job has ever used: faults name
// ranks by their places at the begin of the job. Owned by a training run; one thread. The policy
// clock is in nanoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/jobs/fitted_job.hpp"

namespace orrery::sim {

/// Cache of fitted jobs.
class FitCache {
 public:
  /// Common data of all fits of the job; must outlive the cache.
  struct Ground {
    const Scenario& scenario;
    const Cluster& cluster;
    estimates::Stepper::Options options;
    estimates::EngineFactory engine;
    std::uint64_t seed = 0;  ///< seed of noise
  };
  /// Constructs a cache. `home`: by rank, GPU at the expected begin.
  FitCache(Ground ground, std::vector<GpuId> home);
  FitCache(const FitCache&) = delete;
  FitCache& operator=(const FitCache&) = delete;

  /// fit of the first placement
  const std::shared_ptr<FittedJob>& initial_fit() const { return begun_; }
  const std::shared_ptr<FittedJob>& now() const { return now_; }  ///< fit of the current placement

  /// Returns the placement at the expected begin, with the scenario's layout.
  Standing home() const;
  /// Sets another first placement, and forgets all fits.
  void begin_at(const Standing& where);
  /// Returns the GPUs by number: first those by rank at the begin of the job, then all others that
  /// the job has used.
  const std::vector<GpuId>& numbered() const { return home_; }
  /// Numbers the GPUs. Returns true if the job uses some of them for the first time.
  bool number(const GpuRuns& gpus);

  /// Moves the job to `where`. `ranks`: the job's numbers of these ranks.
  void move_to(const Standing& where, std::vector<std::uint32_t> ranks);
  /// Draws noise from `from` on with another seed.
  void reseed_noise(Nanos from, std::uint64_t seed);

  // Returns the number of simulated steps over all fits.
  std::uint64_t simulated() const;  ///< number of simulated steps over all fits
  std::uint64_t most_classes() const;

 private:
  std::shared_ptr<FittedJob> fit(const Standing& where, std::vector<std::uint32_t> ranks,
                                 std::shared_ptr<FittedJob> begun) const;
  std::shared_ptr<FittedJob> fitted(const Standing& where, std::vector<std::uint32_t> ranks);

  const Ground ground_;
  std::vector<GpuId> home_;
  std::shared_ptr<FittedJob> begun_;
  std::shared_ptr<FittedJob> now_;
  std::vector<std::shared_ptr<FittedJob>> others_;  ///< fits of later placements, newest first
  /// instant and seed of the newest reseeding
  std::optional<std::pair<Nanos, std::uint64_t>> reseeded_;
  std::uint64_t simulated_before_ = 0;                       ///< steps of discarded fits
  std::uint64_t most_classes_ = 0;
};

}  // namespace orrery::sim
