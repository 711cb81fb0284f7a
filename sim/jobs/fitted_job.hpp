// A training job as it stands: its step graph on the GPUs that work, what steps cost there, and the
// instruments on them. Made anew when where it stands changes; the backend keeps the last few. One
// thread.
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

class FittedJob {
 public:
  /// What all fits of a job have in common; it outlives them.
  struct Ground {
    const Scenario& scenario;
    const Cluster& cluster;
    const std::vector<GpuId>& home;  ///< by rank as the job began; faults name ranks by it
    const estimates::Stepper::Options& options;
    const estimates::EngineFactory& engine;
    std::uint64_t seed = 0;  ///< of noise
  };
  /// `where`: the replicas that work; `ranks`: their numbers in the job, which may have more.
  /// `begun`: the job as it began, null where this is that; the replicas that stand here as they
  /// did there cost next to nothing.
  FittedJob(const Ground& ground, const Standing& where, std::vector<std::uint32_t> ranks,
            std::shared_ptr<FittedJob> begun);

  const Standing& where() const { return where_; }
  StepGraph& graph() { return *graph_; }
  const StepGraph& graph() const { return *graph_; }
  estimates::Stepper& stepper() { return stepper_; }
  Telemetry& telemetry() { return telemetry_; }
  /// The same GPUs under other numbers in the job.
  void renumber(std::vector<std::uint32_t> ranks) { ranks_ = std::move(ranks); }
  /// The job's number of a rank that works.
  RankId rank_of_job(std::uint32_t rank) const { return {ranks_[rank]}; }
  /// Faults' ranks as this job's; those that do not work here are left out, and so are links that
  /// cannot bind it: of thousands of cables that flap in a fabric, hardly one makes a difference.
  estimates::HardwareState local(estimates::HardwareState state);
  std::vector<RankId> local(const std::vector<RankId>& ranks) const;

 private:
  std::shared_ptr<StepGraph> graph_of(const Scenario& scenario);
  estimates::Stepper::Whole whole() const;
  bool stands_as_in(const FittedJob& whole, std::uint32_t replica, std::uint32_t there) const;
  std::optional<std::uint32_t> rank_by_home(std::uint32_t home_rank) const;

  Standing where_;
  const std::shared_ptr<FittedJob> begun_;
  /// By replicas: jobs of as many have the same programs. Of the job as it began.
  std::map<std::uint32_t, std::shared_ptr<StepGraph>> graphs_;
  const std::shared_ptr<StepGraph> graph_;
  const bool thins_;  ///< links lose shares, and may be left out where they have room
  const std::vector<GpuId>& home_;
  std::vector<GpuId> placement_;
  std::vector<std::uint32_t> ranks_;
  estimates::Stepper stepper_;
  Telemetry telemetry_;
};

/// Why the job cannot be laid out over so many replicas; empty: it can.
std::string replicas_objection(const Job& job, std::uint32_t replicas);

/// Those that are left where a job stands, and their numbers in it.
std::pair<Standing, std::vector<std::uint32_t>> working_part(const JobInfo& job);

}  // namespace orrery::sim
