// What the instruments show: samples of ranks, devices and links as a real cluster's monitoring
// would give them, late by the scenario's staleness and off by its seeded noise. A sample's error
// depends on the seed, the instant and the place alone, never on the order of reading. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/estimates/step/played_step.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "sim/jobs/rank_noise.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::sim {

class Telemetry {
 public:
  Telemetry(const Cluster& cluster, const StepGraph& graph, const std::vector<GpuId>& placement,
            const Noise& noise, std::uint64_t seed);

  /// Steps are told as they begin; the last few are kept.
  void begin_step(estimates::PlayedStep played);
  /// What was played on other GPUs tells nothing of these.
  void forget() { steps_.clear(); }
  const estimates::PlayedStep* current() const { return steps_.empty() ? nullptr : &steps_.back(); }

  void ranks(Nanos now, std::vector<RankSample>& out) const;
  void devices(Nanos now, std::vector<DeviceSample>& out) const;
  /// Between neighbours of the data-parallel rings of tensor rank 0.
  void links(Nanos now, const estimates::Stepper& stepper, const estimates::HardwareState& state,
             std::vector<LinkSample>& out);

  /// How many times as long as nominal the slowest rank of each replica computes in a step that
  /// begins at `start`; empty without such noise.
  std::vector<double> stretch(Step step, Nanos start, std::uint32_t replicas) const;
  /// Noise of steps and samples from `from` on is drawn with another seed.
  void reseed(Nanos from, std::uint64_t seed);

 private:
  struct Edge {
    GpuId from, to;
    double latency = 0, bandwidth = 0;
  };
  /// What noise is drawn from.
  struct Source {
    RankNoise compute;
    std::uint64_t sample = 0;
  };
  Source source_of(std::uint64_t seed) const;
  const Source& source(Nanos at) const { return at < reseeded_ ? source_ : later_; }
  const estimates::PlayedStep* at(Nanos instant, const estimates::PlayedStep** before) const;
  Sample<double> sample(double value, Nanos now, std::uint64_t place) const;
  double rank_stretch(const estimates::PlayedStep& step, const StepGraph::Position& at) const;
  /// What ranks are looked at with; those of one stage of a replica have done as much.
  struct Look {
    const estimates::PlayedStep *step = nullptr, *before = nullptr;
    std::uint32_t replica = ~0u, stage = ~0u;
    double done = 0;
  };
  RankSample rank_sample(Nanos now, std::uint32_t rank, Look& look) const;

  const Cluster& cluster_;
  const StepGraph& graph_;
  const std::vector<GpuId>& placement_;
  double compute_cv_, sample_cv_, gradient_variance_;
  Nanos staleness_;
  Source source_, later_;
  Nanos reseeded_ = kNever;
  std::deque<estimates::PlayedStep> steps_;
  std::vector<double> memory_;  ///< bytes in use, by stage
  std::vector<Edge> edges_;
  estimates::HardwareState edges_state_;
};

}  // namespace orrery::sim
