// Fits of a training job to its placements: the state names the first and the current fit, the
// cache keeps these and the last few others, each with its cached steps. The state also numbers all
// GPUs that the job has ever used, because faults name ranks by their GPUs at the begin of the job.
// One thread. Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/training/fitted_job.hpp"

namespace orrery::sim {

/// Fits that the state of a job names.
struct FitState {
  /// GPUs by number: the GPUs of ranks 0, 1, ... at the begin of the job, then all other GPUs that
  /// the job has used, in the order of their first use.
  std::vector<GpuId> numbered;
  std::shared_ptr<FittedJob> first;  ///< fit of the first placement
  std::shared_ptr<FittedJob> now;    ///< fit of the current placement
};

/// Numbers the GPUs that have no number, behind the others in the order of `gpus`. Returns true if
/// any GPU got a number: then call FaultPlan::move_ranks().
bool number_gpus(FitState& fits, const GpuRuns& gpus);

/// Cache of the fits of one job (FittedJob): equal placements give equal fits, whatever was asked
/// before. For example, a job that loses a replica and later returns to its first GPUs returns to
/// its first fit, whose steps are still cached.
class FitCache {
 public:
  /// Constructs an empty cache.
  explicit FitCache(FittedJob::Ground ground) : ground_(std::move(ground)) {}
  FitCache(const FitCache&) = delete;
  FitCache& operator=(const FitCache&) = delete;

  /// Returns the fits of a job whose first placement is `where`, which is also its current one.
  /// Discards all fits of the cache, whose steps no longer count in simulated(), and numbers the
  /// GPUs of `where` only. An earlier reseed_noise() does not apply to this fit, only to those of
  /// later move_to(). Throws as FittedJob.
  FitState begin_at(const Standing& where);
  /// Moves the job to `where`, not empty, with a known fit if the cache has one; otherwise fits the
  /// job, and a full cache drops the least recently used fit. The GPUs of `where` must have
  /// numbers: faults do not reach GPUs without one. `ranks`: number in the job of each rank of
  /// `where`; ignored for the first placement. Discards the telemetry of earlier steps. Throws as
  /// FittedJob.
  void move_to(FitState& fits, const Standing& where, std::vector<std::uint32_t> ranks);
  /// Draws the noise of steps from the instant `from` on with another seed, in all cached fits and
  /// in those of later move_to(); replaces an earlier reseeding.
  void reseed_noise(Nanos from, std::uint64_t seed);

  /// Returns the number of simulated steps of all fits, those that a full cache dropped too, cached
  /// results excluded.
  std::uint64_t simulated() const;
  /// Returns the largest number of replica classes of any simulated step.
  std::uint64_t most_classes() const;

 private:
  /// Returns the cached fit to `where`, or a new fit. A full cache drops its oldest fit.
  std::shared_ptr<FittedJob> fitted(const Standing& where, std::vector<std::uint32_t> ranks);

  const FittedJob::Ground ground_;
  std::shared_ptr<FittedJob> begun_;                ///< fit of the first placement
  std::vector<std::shared_ptr<FittedJob>> others_;  ///< fits of later placements, newest first
  /// instant and seed of the newest reseeding
  std::optional<std::pair<Nanos, std::uint64_t>> reseeded_;
  std::uint64_t simulated_before_ = 0;  ///< steps of discarded fits
  std::uint64_t most_classes_ = 0;
};

}  // namespace orrery::sim
