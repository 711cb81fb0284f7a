// A training job as it stands: its step graph on the GPUs that work, what steps cost there, and the
// instruments on them. Made anew when where it stands changes; the backend keeps the last few. One
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/job.hpp"
#include "sim/hardware_state.hpp"
#include "sim/stepper.hpp"
#include "sim/telemetry.hpp"
#include "traces/scenario.pb.h"
#include "traces/step_graph.hpp"

namespace orrery {

class FittedJob {
 public:
  /// `where`: the replicas that work; `ranks`: their numbers in the job, which may have more.
  /// `home`: the GPU of each rank as the job began, by which faults name ranks. `seed`: of noise.
  FittedJob(const Scenario& scenario, const Cluster& cluster, const Standing& where,
            std::vector<std::uint32_t> ranks, const std::vector<GpuId>& home,
            const Stepper::Options& options, const EngineFactory& engine, std::uint64_t seed);

  const Standing& where() const { return where_; }
  StepGraph& graph() { return graph_; }
  const StepGraph& graph() const { return graph_; }
  Stepper& stepper() { return stepper_; }
  Telemetry& telemetry() { return telemetry_; }
  /// The same GPUs under other numbers in the job.
  void renumber(std::vector<std::uint32_t> ranks) { ranks_ = std::move(ranks); }
  /// The job's number of a rank that works.
  RankId rank_of_job(std::uint32_t rank) const { return {ranks_[rank]}; }
  /// Faults' ranks as this job's; those that do not work here are left out.
  HardwareState local(HardwareState state) const;
  std::vector<RankId> local(const std::vector<RankId>& ranks) const;

 private:
  bool at_home() const { return by_home_.empty(); }

  Standing where_;
  StepGraph graph_;
  std::vector<GpuId> placement_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::int64_t> by_home_;  ///< rank here by rank as the run began; -1: not here
  Stepper stepper_;
  Telemetry telemetry_;
};

/// Why the job cannot be laid out over so many replicas; empty: it can.
std::string replicas_objection(const Job& job, std::uint32_t replicas);

/// Those that are left where a job stands, and their numbers in it.
std::pair<Standing, std::vector<std::uint32_t>> working_part(const JobInfo& job);

}  // namespace orrery
