// A training job fitted to where it stands: as it began, as it stands now, and the last few
// standings in between, whose steps are remembered. It also numbers the GPUs that the job has ever
// stood on: faults name ranks by where those stood as the job began. Owned by a training run; one
// thread. The policy clock is in nanoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/jobs/fitted_job.hpp"

namespace orrery::sim {

class FitCache {
 public:
  /// What all fits of the job have in common; what is referred to outlives this.
  struct Ground {
    const Scenario& scenario;
    const Cluster& cluster;
    estimates::Stepper::Options options;
    estimates::EngineFactory engine;
    std::uint64_t seed = 0;  ///< of noise
  };
  /// `home`: by rank, where the job is going to begin.
  FitCache(Ground ground, std::vector<GpuId> home);
  FitCache(const FitCache&) = delete;
  FitCache& operator=(const FitCache&) = delete;

  const std::shared_ptr<FittedJob>& begun() const { return begun_; }  ///< as the job began
  const std::shared_ptr<FittedJob>& now() const { return now_; }      ///< as it stands

  /// As the scenario lays it out, on the GPUs where it begins.
  Standing home() const;
  /// It begins there and not where it was going to: nothing that was known holds any more.
  void begin_at(const Standing& where);
  /// By number. First those by rank, as the job began; behind them others that it has come to
  /// stand on.
  const std::vector<GpuId>& numbered() const { return home_; }
  /// True if there are GPUs among them on which it has never stood: they have numbers now.
  bool number(const GpuRuns& gpus);

  /// It works there from now on; `ranks`: their numbers in the job.
  void stand_on(const Standing& where, std::vector<std::uint32_t> ranks);
  /// Noise from `from` on is drawn with another seed.
  void reseed(Nanos from, std::uint64_t seed);

  // Of all standings that there have been.
  std::uint64_t simulated() const;  ///< steps
  std::uint64_t most_classes() const;

 private:
  std::shared_ptr<FittedJob> fit(const Standing& where, std::vector<std::uint32_t> ranks,
                                 std::shared_ptr<FittedJob> begun) const;
  std::shared_ptr<FittedJob> fitted(const Standing& where, std::vector<std::uint32_t> ranks);

  const Ground ground_;
  std::vector<GpuId> home_;
  std::shared_ptr<FittedJob> begun_;
  std::shared_ptr<FittedJob> now_;
  std::vector<std::shared_ptr<FittedJob>> others_;  ///< that are not as it began, newest first
  std::optional<std::pair<Nanos, std::uint64_t>> reseeded_;  ///< from when on, with which seed
  std::uint64_t simulated_before_ = 0;                       ///< by fits that are gone
  std::uint64_t most_classes_ = 0;
};

}  // namespace orrery::sim
