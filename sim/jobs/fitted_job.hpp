// Training job at a placement: its step graph on the working GPUs, the prices of its steps there,
// and its telemetry. Constructed again when the placement changes; the backend keeps the last few.
// One thread.
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
#include "sim/jobs/telemetry.hpp"
#include "traces/scenario.pb.h"
#include "traces/training/step_graph.hpp"

namespace orrery::sim {

/// Job fitted to one placement.
class FittedJob {
 public:
  /// Common data of all fits of a job; must outlive them.
  struct Ground {
    const Scenario& scenario;
    const Cluster& cluster;
    /// indexed by rank at the begin of the job; faults name ranks by it
    const std::vector<GpuId>& home;
    const estimates::Stepper::Options& options;
    const estimates::EngineFactory& engine;
    std::uint64_t seed = 0;  ///< seed of noise
  };
  /// Fits the job. `where`: the working replicas. `ranks`: their numbers in the job, which may have
  /// more. `begun`: the job's first fit, null for the first one; replicas at their first places
  /// cost almost nothing.
  FittedJob(const Ground& ground, const Standing& where, std::vector<std::uint32_t> ranks,
            std::shared_ptr<FittedJob> begun);

  const Standing& where() const { return where_; }
  StepGraph& graph() { return *graph_; }
  const StepGraph& graph() const { return *graph_; }
  estimates::Stepper& stepper() { return stepper_; }
  Telemetry& telemetry() { return telemetry_; }
  /// Changes the numbers of the ranks in the job; the GPUs stay.
  void renumber_ranks(std::vector<std::uint32_t> ranks) { ranks_ = std::move(ranks); }
  /// Returns the job's number of a working rank.
  RankId rank_of_job(std::uint32_t rank) const { return {ranks_[rank]}; }
  /// Returns the hardware state with this fit's rank numbers. Omits ranks that do not work here,
  /// and links that cannot limit the job: of thousands of flapping cables in a fabric, hardly one
  /// matters.
  estimates::HardwareState local(estimates::HardwareState state);
  std::vector<RankId> local(const std::vector<RankId>& ranks) const;

 private:
  std::shared_ptr<StepGraph> graph_of(const Scenario& scenario);
  estimates::Stepper::Whole whole() const;
  bool is_placed_as_in(const FittedJob& whole, std::uint32_t replica, std::uint32_t there) const;
  std::optional<std::uint32_t> rank_by_home(std::uint32_t home_rank) const;

  Standing where_;
  const std::shared_ptr<FittedJob> begun_;
  /// Graphs of the first fit by number of replicas: jobs with equally many have the same programs.
  std::map<std::uint32_t, std::shared_ptr<StepGraph>> graphs_;
  const std::shared_ptr<StepGraph> graph_;
  const bool thins_;  ///< true if links that are not limiting may be omitted
  const std::vector<GpuId>& home_;
  std::vector<GpuId> placement_;
  std::vector<std::uint32_t> ranks_;
  estimates::Stepper stepper_;
  Telemetry telemetry_;
};

/// Returns the reason why the job cannot be laid out over `replicas` replicas; empty if it can.
std::string replicas_objection(const Job& job, std::uint32_t replicas);

/// Returns the placement of the working replicas of a job, and their rank numbers in the job.
std::pair<Standing, std::vector<std::uint32_t>> working_part(const JobInfo& job);

}  // namespace orrery::sim
