// A toy world for the tests of the seam: four GPUs, one training job, one rank that slows down,
// all in exact arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "policies/worker.hpp"

namespace orrery::toy {

inline constexpr std::uint32_t kNodes = 2, kGpusPerNode = 2, kRanks = 4;
inline constexpr Nanos kTick = 50'000'000;

inline Cluster cluster(std::uint32_t nodes = kNodes, std::uint32_t gpus_per_node = kGpusPerNode) {
  GpuModel gpu{};
  gpu.name = "toy";
  Cluster::Shape shape{};
  shape.nodes = nodes;
  shape.gpus_per_node = gpus_per_node;
  shape.nics_per_node = 1;
  shape.nodes_per_unit = nodes;
  shape.spines = 1;
  return Cluster(std::move(gpu), shape, Price{});
}

inline JobSpec job(std::uint32_t id = 0, std::uint32_t micro_batches = 40) {
  JobSpec spec;
  spec.id = {id};
  spec.name = "toy";
  spec.gpus = kRanks;
  spec.data = kRanks;
  spec.micro_batches = micro_batches;
  spec.max_micro_batches = 2 * micro_batches / kRanks;
  spec.nominal_micro_batch_time = 10'000'000;
  return spec;
}

inline std::vector<GpuId> gpus(std::uint32_t first, std::uint32_t count) {
  std::vector<GpuId> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back({first + i});
  return out;
}

/// Rank 2 takes three times as long from step 10 on; ticks and step ends are reported.
class ToyBackend : public RunBackend {
 public:
  explicit ToyBackend(const Cluster& cluster, Step steps = 40, std::uint64_t seed = 1)
      : world_(cluster), steps_(steps), rng_(seed) {}

  Capabilities capabilities() const override { return {~0u >> 25, ~0u >> 19}; }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs& needs) override { tick_ = needs.tick_period; }

  std::optional<Observation> next() override {
    events_.clear();
    if (sequence_ == 0) {
      happens(JobSubmitted{job(), gpus(0, kRanks)});
      begin_step();
    } else if (step() == steps_) {
      return {};
    } else {
      advance();
    }
    sample();
    return Observation{.now = now_, .epoch = {}, .sequence = sequence_++, .events = events_,
                       .devices = devices_, .links = {}, .ranks = ranks_, .collectives = {},
                       .cluster = world_.cluster(), .state = world_.state(),
                       .jobs = world_.jobs()};
  }

  void apply(std::span<const Decision> decisions, bool) override {
    for (const Decision& decision : decisions) {
      const std::string against = world_.objection(decision);
      world_.announce(decision);
      outcomes_.push_back({decision.number, against.empty() ? Outcome::applied : Outcome::rejected,
                           against});
    }
  }

  void fill(Report& report) override { report.set_steps_completed(step()); }
  const World& world() const { return world_; }

 private:
  Step step() const { return world_.jobs()[0].step; }
  double slowness(std::size_t rank) const { return rank == 2 && step() >= 10 ? 3 : 1; }
  double micro_batch_s(std::size_t rank) const { return 0.01 * slowness(rank); }

  void happens(Event event) {
    world_.apply(event);
    events_.push_back(std::move(event));
  }

  void begin_step() {
    step_began_ = now_;
    double longest = 0;
    const auto& shares = world_.jobs()[0].per_replica;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      longest = std::max(longest, shares[i] * micro_batch_s(i));
    }
    step_ends_ = now_ + to_nanos(longest);
  }

  void advance() {
    const Nanos next_tick = tick_ > 0 ? (now_ / tick_ + 1) * tick_ : kNever;
    now_ = std::min(step_ends_, next_tick);
    if (now_ == step_ends_) happens(StepDone{{0}, step(), now_ - step_began_});
    for (const DecisionOutcome& outcome : std::exchange(outcomes_, {})) happens(outcome);
    if (now_ == step_ends_) begin_step();
    if (now_ == next_tick) happens(Tick{});
  }

  void sample() {
    ranks_.clear();
    devices_.clear();
    const auto& shares = world_.jobs()[0].per_replica;
    for (std::uint32_t i = 0; i < kRanks; ++i) {
      const double noisy = micro_batch_s(i) * (1 + 0.01 * rng_.normal());
      const double done = to_seconds(now_ - step_began_) / micro_batch_s(i);
      ranks_.push_back({.job = {0}, .rank = {i}, .step = step(),
                        .micro_batches_done = {std::min<double>(shares[i], done), 0,
                                               Origin::measured},
                        .micro_batch_time = {noisy, 0, Origin::measured},
                        .wait_time = {}, .gradient_variance = {}});
      devices_.push_back({.gpu = {i}, .utilization = {0.9, 0, Origin::modelled},
                          .memory_bandwidth = {0.5, 0, Origin::modelled}, .memory_used = {},
                          .power = {}});
    }
  }

  World world_;
  Step steps_;
  Rng rng_;
  Nanos now_ = 0, tick_ = 0, step_began_ = 0, step_ends_ = 0;
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_;
  std::vector<DeviceSample> devices_;
  std::vector<RankSample> ranks_;
  std::vector<DecisionOutcome> outcomes_;
};

/// At step 12 it moves work from rank 2 to the others; it counts calls.
class ShiftOnce : public Policy {
 public:
  Needs needs() const override { return {kSteps | kRanks, action_bit(2), kTick}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    ++calls_;
    if (seen.jobs[0].step < 12 || shifted_) {
      decisions.rest();
      return;
    }
    shifted_ = true;
    Decision& shift = decisions.add(ShiftMicrobatches{{0}, {12, 12, 4, 12}}, "rank 2 is slow");
    shift.effective_at_step = seen.jobs[0].step + 1;
  }
  void save(Archive& archive) const override {
    archive = std::to_string(calls_) + (shifted_ ? " shifted" : "");
  }
  void load(const Archive& archive) override {
    calls_ = std::stoul(archive);
    shifted_ = archive.find(' ') != Archive::npos;
  }

 private:
  std::uint64_t calls_ = 0;
  bool shifted_ = false;
};

/// A scenario whose cluster is the toy's, resolved; one pace, two ranks a node.
inline Scenario scenario() {
  Scenario toy;
  toy.set_name("toy");
  Topology& topology = *toy.mutable_cluster();
  topology.set_nodes(kNodes);
  NodeSpec& node = *topology.mutable_node();
  node.set_gpu("toy");
  node.set_gpus_per_node(kGpusPerNode);
  node.set_nics_per_node(1);
  node.set_nic_bandwidth(5e10);
  node.set_host_power(1000);
  FabricSpec& fabric = *topology.mutable_fabric();
  fabric.set_nodes_per_unit(kNodes);
  fabric.set_spines(1);
  fabric.set_spine_link_bandwidth(5e10);
  topology.mutable_price()->set_pue(1);
  GpuSpec& gpu = *topology.add_gpus();
  gpu.set_name("toy");
  for (const char* rate : {"memory", "memory_bandwidth", "fp32", "bf16", "pcie", "nvlink"}) {
    gpu.GetReflection()->SetDouble(&gpu, gpu.GetDescriptor()->FindFieldByName(rate), 1e12);
  }
  gpu.set_idle_power(100);
  gpu.set_max_power(700);
  gpu.add_source("made up");
  toy.mutable_run()->set_steps(40);
  toy.mutable_run()->set_seed(7);
  return toy;
}

}  // namespace orrery::toy
