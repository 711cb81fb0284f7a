// Simulated telemetry: samples of ranks, devices and links as a real cluster's monitoring would
// give them, delayed by the scenario's staleness and with its seeded noise. The error of a sample
// depends on seed, instant and place alone, never on the order of reading. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/estimates/step/played_step.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "sim/training/rank_noise.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/declared_noise.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Telemetry of one fitted job.
class Telemetry {
 public:
  /// Constructs telemetry without steps; `cluster`, `graph` and `placement` must outlive it.
  Telemetry(const Cluster& cluster, const StepGraph& graph, const std::vector<GpuId>& placement,
            const Noise& noise, std::uint64_t seed);

  /// Adds a step that begins; steps are added in the order of their begins. Keeps the steps that
  /// samples may still show, and drops older ones.
  void begin_step(estimates::PlayedStep played);
  /// Forgets the steps, because they ran on other GPUs.
  void forget_steps() { steps_.clear(); }
  /// Returns the newest step, valid until the next begin_step() or forget_steps(); null without
  /// steps.
  const estimates::PlayedStep* current() const { return steps_.empty() ? nullptr : &steps_.back(); }

  /// Appends one sample for each rank, numbered as in the fit, of job 0; all values are missing if
  /// no kept step had begun at `now` minus the staleness. The times of micro-batches and waits are
  /// missing where no kept step has completed them.
  void ranks(Nanos now, std::vector<RankSample>& out) const;
  /// Appends one sample for each GPU, in the order of the ranks; missing values as in ranks().
  void devices(Nanos now, std::vector<DeviceSample>& out) const;
  /// Appends the samples of the links between neighbours of the data-parallel rings of tensor rank
  /// 0, of each pipeline stage, with the rates in `state`; none with one replica, or before the
  /// staleness has passed once. Needs no step.
  void links(Nanos now, const estimates::Stepper& stepper, const estimates::HardwareState& state,
             std::vector<LinkSample>& out);

  /// Returns, by replica, the noise factor on the compute time of its slowest rank in a step that
  /// begins at `start`; empty without noise of compute times. Equal arguments give equal factors,
  /// until reseed_noise().
  std::vector<double> stretch(Step step, Nanos start, std::uint32_t replicas) const;
  /// Draws noise of steps and samples from `from` on with another seed; replaces an earlier
  /// reseeding.
  void reseed_noise(Nanos from, std::uint64_t seed);

 private:
  struct Edge {
    GpuId from, to;
    double latency = 0, bandwidth = 0;
  };
  /// Random streams of the noise.
  struct Source {
    RankNoise compute;
    std::uint64_t sample = 0;
  };
  Source source_of(std::uint64_t seed) const;
  const Source& source(Nanos at) const { return at < reseeded_ ? source_ : later_; }
  const estimates::PlayedStep* at(Nanos instant, const estimates::PlayedStep** before) const;
  Sample<double> sample(double value, Nanos now, std::uint64_t place) const;
  double rank_stretch(const estimates::PlayedStep& step, const StepGraph::Position& at) const;
  /// Intermediate results of one reading; ranks of one stage of a replica have equal progress.
  struct Look {
    const estimates::PlayedStep *step = nullptr, *before = nullptr;
    std::uint32_t replica = ~0u, stage = ~0u;
    double done = 0;
  };
  RankSample rank_sample(Nanos now, std::uint32_t rank, Look& look) const;
  void add_gradients(const estimates::PlayedStep& newest, std::uint32_t replica,
                     RankSample& out) const;

  const Cluster& cluster_;
  const StepGraph& graph_;
  const std::vector<GpuId>& placement_;
  double compute_cv_, sample_cv_, gradient_variance_;
  DeclaredNoise declared_;
  Nanos staleness_;
  Source source_, later_;
  Nanos reseeded_ = kNever;
  std::deque<estimates::PlayedStep> steps_;
  std::vector<double> memory_;  ///< bytes in use, by stage
  std::vector<Edge> edges_;
  estimates::HardwareState edges_state_;
};

}  // namespace orrery::sim
