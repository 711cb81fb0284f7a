// Training job at one placement: its step graph on the working GPUs, the simulator of its steps
// there, and its telemetry. A change of the placement constructs another fit; FitCache stores the
// last few. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/job.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "sim/training/storage_rates.hpp"
#include "sim/training/telemetry.hpp"
#include "sim/training/training_setup.hpp"
#include "traces/scenario.pb.h"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Training job fitted to one placement. Owns the step graph, the stepper and the telemetry; shares
/// the graphs and the stepper of the first fit. Ranks of a fit are numbered 0, 1, ... over the
/// working replicas only: if a job of 4 ranks without tensor or pipeline parallelism has lost rank
/// 1, ranks 0, 1, 2 of the fit are ranks 0, 2, 3 of the job.
class FittedJob {
 public:
  /// Common data of all fits of a job.
  struct Ground {
    const TrainingSetup* setup = nullptr;  ///< not null; must outlive the fits
    estimates::Stepper::Options options;
    estimates::EngineFactory engine;
    std::uint64_t seed = 0;  ///< seed of noise
  };
  /// Fits the job to the placement `where` of its working replicas. `ranks`: number in the job of
  /// each of these ranks; the job may have more ranks. `begun`: the first fit of the job, null for
  /// the first fit itself; if all replicas of `where` are on the same GPUs as replicas of `begun`,
  /// the plan of `begun` is reused and the fit costs almost nothing. `where` must have as many GPUs
  /// as its layout has ranks; the sizes of its replicas may differ from those of the scenario.
  /// Throws as Stepper and StepGraph, and bad_input if the engine lacks room.
  FittedJob(const Ground& ground, const Standing& where, std::vector<std::uint32_t> ranks,
            std::shared_ptr<FittedJob> begun);

  /// Returns the placement of the working replicas.
  const Standing& where() const { return where_; }
  /// Returns the step graph for the layout of the working replicas; fits with equal layouts share
  /// it.
  StepGraph& graph() { return *graph_; }
  const std::shared_ptr<StepGraph>& shared_graph() const { return graph_; }
  const StepGraph& graph() const { return *graph_; }
  /// Returns the simulator of the job's steps at this placement.
  estimates::Stepper& stepper() { return stepper_; }
  /// Returns the telemetry of the job at this placement, without steps at first.
  Telemetry& telemetry() { return telemetry_; }
  /// Returns the nodes of the placement by their numbers of ranks, counted on first use.
  const std::vector<StorageNodes>& storage_nodes();
  /// Replaces the numbers of the ranks in the job, one for each rank of this fit; the GPUs do not
  /// change.
  void renumber_ranks(std::vector<std::uint32_t> ranks) {
    ranks_ = std::move(ranks);
    telemetry_.forget_numbers();
  }
  /// Returns the numbers in the job of the ranks of this fit.
  const std::vector<std::uint32_t>& ranks() const { return ranks_; }
  /// Returns the number in the job of a rank of this fit, which must be below graph().ranks().
  RankId rank_of_job(std::uint32_t rank) const { return {ranks_[rank]}; }
  /// Returns `state`, which names ranks by the numbers of GPUs, with the ranks of this fit.
  /// `numbered`: GPUs by number (FitState); every number of `state` must have an entry, which is
  /// not checked. Omits ranks that do not work here. In a fabric that spreads traffic, also omits
  /// slow links that cannot limit the job, so that flapping cables elsewhere cause no new
  /// simulation; not in full detail.
  estimates::HardwareState local(const std::vector<GpuId>& numbered,
                                 estimates::HardwareState state);
  /// Returns the ranks of this fit on the GPUs with the given numbers, each of which must have an
  /// entry in `numbered` (not checked), without ranks that do not work here.
  std::vector<RankId> local(const std::vector<GpuId>& numbered,
                            const std::vector<RankId>& ranks) const;

 private:
  /// Returns the step graph for the layout of this fit, shared with other fits.
  std::shared_ptr<StepGraph> graph_of(const Scenario& scenario);
  /// Returns the first fit's stepper and the replicas that this fit shares with the first fit; no
  /// stepper if any replica is elsewhere.
  estimates::Stepper::Whole whole() const;
  /// Returns true if the ranks of `replica` are on the GPUs of replica `there` of `whole`.
  bool is_placed_as_in(const FittedJob& whole, std::uint32_t replica, std::uint32_t there) const;
  /// Returns the rank of this fit on the GPU; nothing if no rank of this fit is on the GPU.
  std::optional<std::uint32_t> rank_on(GpuId gpu) const;

  Standing where_;
  const std::shared_ptr<FittedJob> begun_;  ///< first fit of the job; null in the first fit
  /// graphs of all fits by layout, kept in the first fit: fits with equal layouts have the same
  /// programs
  std::vector<std::pair<ParallelLayout, std::shared_ptr<StepGraph>>> graphs_;
  const std::shared_ptr<StepGraph> graph_;
  const bool thins_;  ///< true if links that are not limiting may be omitted
  std::vector<GpuId> placement_;      ///< GPU of each rank of this fit
  std::vector<std::uint32_t> ranks_;  ///< number in the job of each rank of this fit
  estimates::Stepper stepper_;
  Telemetry telemetry_;
  std::vector<StorageNodes> storage_nodes_;  ///< empty: not counted yet
};

/// Returns the placement of the replicas of a job that have lost no rank, and the number in the job
/// of each of their ranks; no GPUs if every replica has lost a rank or the job has no GPUs.
std::pair<Standing, std::vector<std::uint32_t>> working_part(const JobInfo& job);

}  // namespace orrery::sim
