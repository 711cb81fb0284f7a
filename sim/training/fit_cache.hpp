// Fits of a training job to its placements: the first fit, the current fit, and the last few other
// fits, each with its cached steps. Also numbers all GPUs that the job has ever used, because
// faults name ranks by their GPUs at the begin of the job. Owned by a training run; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/training/fitted_job.hpp"

namespace orrery::sim {

/// Cache of the fits of one job (FittedJob). For example, a job that loses a replica and later
/// returns to its first GPUs returns to its first fit, whose steps are still cached.
class FitCache {
 public:
  /// Common data of all fits of the job. The referenced objects must outlive the cache.
  struct Ground {
    const Scenario& scenario;
    const Cluster& cluster;
    estimates::Stepper::Options options;
    estimates::EngineFactory engine;
    std::uint64_t seed = 0;  ///< seed of noise
  };
  /// Constructs a cache with the first fit, which is also the current fit. `home`: GPU of each rank
  /// at the expected begin of the job, as many as the scenario's layout has ranks. Throws as
  /// FittedJob.
  FitCache(Ground ground, std::vector<GpuId> home);
  FitCache(const FitCache&) = delete;
  FitCache& operator=(const FitCache&) = delete;

  /// Returns the fit of the first placement: another object after begin_at().
  const std::shared_ptr<FittedJob>& initial_fit() const { return begun_; }
  /// Returns the fit of the current placement: another object after move_to() and begin_at().
  const std::shared_ptr<FittedJob>& now() const { return now_; }

  /// Returns the placement at the begin of the job, with the scenario's layout. Valid until
  /// number_gpus() adds GPUs.
  Standing home() const;
  /// Replaces the first placement by `where`, discards all fits, whose steps no longer count in
  /// simulated(), and fits the job to `where`, its new first and current fit. Numbers the GPUs of
  /// `where` only. An earlier reseed_noise() does not apply to this fit, only to those of later
  /// move_to(). Call before the job's first start. Throws as FittedJob.
  void begin_at(const Standing& where);
  /// Returns the GPUs by number: the GPUs of ranks 0, 1, ... at the begin of the job, then all
  /// other GPUs that the job has used, in the order of their first use.
  const std::vector<GpuId>& numbered() const { return home_; }
  /// Numbers the GPUs that have no number, behind the others in the order of `gpus`. Returns true
  /// if any GPU got a number: then call JobFaults::update_gpu_numbers().
  bool number_gpus(const GpuRuns& gpus);

  /// Moves the job to `where`, not empty, with a known fit if the cache has one; otherwise fits the
  /// job, and a full cache drops the least recently used fit. The GPUs of `where` must have
  /// numbers: faults do not reach GPUs without one. `ranks`: number in the job of each rank of
  /// `where`; ignored for the first placement. Discards the telemetry of earlier steps. Throws as
  /// FittedJob.
  void move_to(const Standing& where, std::vector<std::uint32_t> ranks);
  /// Draws the noise of steps from the instant `from` on with another seed, in all cached fits and
  /// in those of later move_to(); replaces an earlier reseeding.
  void reseed_noise(Nanos from, std::uint64_t seed);

  /// Returns the number of simulated steps of all fits, those that a full cache dropped too, cached
  /// results excluded.
  std::uint64_t simulated() const;
  /// Returns the largest number of replica classes of any simulated step.
  std::uint64_t most_classes() const;

 private:
  /// Returns a new fit to `where`. `begun`: the first fit; null for the first fit itself.
  std::shared_ptr<FittedJob> fit(const Standing& where, std::vector<std::uint32_t> ranks,
                                 std::shared_ptr<FittedJob> begun) const;
  /// Returns the cached fit to `where`, or a new fit. A full cache drops its oldest fit.
  std::shared_ptr<FittedJob> fitted(const Standing& where, std::vector<std::uint32_t> ranks);

  const Ground ground_;
  std::vector<GpuId> home_;  ///< GPUs by number
  std::shared_ptr<FittedJob> begun_;
  std::shared_ptr<FittedJob> now_;
  std::vector<std::shared_ptr<FittedJob>> others_;  ///< fits of later placements, newest first
  /// instant and seed of the newest reseeding
  std::optional<std::pair<Nanos, std::uint64_t>> reseeded_;
  std::uint64_t simulated_before_ = 0;                       ///< steps of discarded fits
  std::uint64_t most_classes_ = 0;
};

}  // namespace orrery::sim
