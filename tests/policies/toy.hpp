// A toy world for the tests of the seam: four GPUs, one training job, one rank that slows down,
// all in exact arithmetic.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/gate.hpp"

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
  spec.layout.data = kRanks;
  spec.micro_batches = micro_batches;
  spec.max_micro_batches = 2 * micro_batches / kRanks;
  spec.nominal_micro_batch_time = 10'000'000;
  spec.can = Kinds<Setting>::all();
  return spec;
}

/// A job without steps: so many GPUs.
inline JobSpec plain(std::uint32_t id, std::uint32_t gpus) {
  JobSpec spec;
  spec.id = {id};
  spec.gpus = spec.layout.data = gpus;
  return spec;
}

inline GpuRuns gpus(std::uint32_t first, std::uint32_t count) {
  return GpuRuns::range({first}, count);
}

/// Returns a placement with as many replicas of one rank as GPUs.
inline Standing standing(std::uint32_t first, std::uint32_t count) {
  return {gpus(first, count), {.data = count}};
}
inline Assign assign(std::uint32_t job, std::uint32_t first, std::uint32_t count,
                     StateFrom state = StateFrom::none) {
  return {{job}, gpus(first, count), {.data = count}, state};
}

/// Returns the start of a submitted job, in its next epoch.
inline JobStarted started(const World& world, std::uint32_t job, Standing where, Step from = 0) {
  return {{job}, {world.jobs()[{job}].epoch.value + 1}, from, std::move(where)};
}

/// Submitted and started on neighbours from GPU `first` on.
inline void run_on(World& world, JobSpec spec, std::uint32_t first = 0, Nanos now = 0) {
  const Standing where{gpus(first, spec.gpus), spec.layout};
  const std::uint32_t id = spec.id.value;
  world.apply(JobSubmitted{std::move(spec)}, now);
  world.apply(started(world, id, where), now);
}

/// Returns the observation of a world.
inline Observation seen_of(const World& world, std::span<const Event> events, Samples& samples,
                           Nanos now = 0, std::uint64_t sequence = 0) {
  return {.now = now, .sequence = sequence, .events = events, .cluster = world.cluster(),
          .state = world.state(), .jobs = world.jobs(), .samples = samples};
}

template <class S>
Needs setting(Nanos tick = 0) {
  return {Kinds<Action>::of<Configure>(), Kinds<Setting>::of<S>(), tick};
}

/// Telemetry of one job, as a test puts it there.
class HandMade : public Samples {
 public:
  RankSummary summary(JobId, std::uint32_t) override { return summed; }
  std::span<const RankSample> ranks(JobId) override { return of_ranks; }
  std::span<const DeviceSample> devices(JobId) override { return of_devices; }
  std::span<const LinkSample> links(JobId) override { return of_links; }
  std::span<const CollectiveSample> collectives(JobId) override { return of_collectives; }
  Samples* unrecorded() override { return this; }
  void clear() { *this = {}; }

  RankSummary summed;
  std::vector<RankSample> of_ranks;
  std::vector<DeviceSample> of_devices;
  std::vector<LinkSample> of_links;
  std::vector<CollectiveSample> of_collectives;
};

/// Rank 2 takes three times as long from step 10 on; ticks and step ends are reported. Settings
/// hold and checkpoints are taken; where the job stands stays as it is.
class ToyBackend : public RunBackend, private Carrier {
 public:
  explicit ToyBackend(const Cluster& cluster, Step steps = 40, std::uint64_t seed = 1)
      : world_(cluster), steps_(steps), rng_(seed) {}

  Capabilities capabilities() const override {
    return {Kinds<Action>::all(), Kinds<Setting>::all()};
  }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs& needs) override { tick_ = needs.tick; }

  std::optional<Observation> next() override {
    events_ = std::exchange(news_, {});
    if (sequence_ == 0) {
      emit_event(JobSubmitted{job()});
      emit_event(started(world_, 0, standing(0, kRanks)));
      begin_step();
    } else if (step() == steps_) {
      return {};
    } else {
      advance_clock();
    }
    std::move(news_.begin(), news_.end(), std::back_inserter(events_));
    news_.clear();
    sample();
    return seen_of(world_, events_, samples_, now_, sequence_++);
  }

  void apply(const DecisionList& decisions) override {
    world_.begin_batch();
    gate_.accept_decisions(decisions, now_);
  }

  void fill(Report& report) override { report.set_steps_completed(step()); }
  const World& world() const { return world_; }

 private:
  std::string refusal(const Decision& decision) const override {
    return std::holds_alternative<Assign>(decision.what) ? "the toy's job stays where it is" : "";
  }
  bool is_step_open(JobId) const override { return now_ < step_ends_; }
  void emit_event(Event event) override {
    world_.apply(event, now_);
    news_.push_back(std::move(event));
  }
  void carry_out(const Decision& decision) override {
    if (const auto* save = std::get_if<Save>(&decision.what)) saves_.push_back(save->tier);
  }

  Step step() const { return world_.jobs()[{0}].step; }
  double slowness(std::size_t rank) const { return rank == 2 && step() >= 10 ? 3 : 1; }
  double micro_batch_s(std::size_t rank) const { return 0.01 * slowness(rank); }

  void begin_step() {
    step_began_ = now_;
    double longest = 0;
    const auto& shares = world_.jobs()[{0}].shares();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      longest = std::max(longest, shares[i] * micro_batch_s(i));
    }
    step_ends_ = now_ + to_nanos(longest);
  }

  void advance_clock() {
    const Nanos next_tick = tick_ > 0 ? (now_ / tick_ + 1) * tick_ : kNever;
    now_ = std::min({step_ends_, next_tick, gate_.next_wake()});
    if (now_ == step_ends_) end_step();
    const bool woken = gate_.pop_due_wakes(now_);
    if (now_ == next_tick || woken) emit_event(Tick{});
  }

  void end_step() {
    emit_event(StepsDone{{0}, step(), 1, now_ - step_began_});
    for (const Tier tier : std::exchange(saves_, {})) emit_event(SaveDone{{0}, step(), tier, 0, 0});
    gate_.settle_deferred({0}, now_);
    begin_step();
  }

  void sample() {
    samples_.clear();
    const auto& shares = world_.jobs()[{0}].shares();
    for (std::uint32_t i = 0; i < kRanks; ++i) {
      const double noisy = micro_batch_s(i) * (1 + 0.01 * rng_.normal());
      const double done = to_seconds(now_ - step_began_) / micro_batch_s(i);
      samples_.of_ranks.push_back(
          {.job = {0}, .rank = {i}, .step = step(),
           .micro_batches_done = {std::min<double>(shares[i], done), 0, Origin::measured},
           .micro_batch_time = {noisy, 0, Origin::measured}, .wait_time = {},
           .gradient_variance = {}});
      samples_.of_devices.push_back(
          {.gpu = {i}, .utilization = {0.9, 0, Origin::modelled},
           .memory_bandwidth = {0.5, 0, Origin::modelled}, .memory_used = {}, .power = {}});
    }
  }

  World world_;
  DecisionGate gate_{world_, {Kinds<Action>::all(), Kinds<Setting>::all()}, *this};
  Step steps_;
  Rng rng_;
  Nanos now_ = 0, tick_ = 0, step_began_ = 0, step_ends_ = 0;
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_, news_;  ///< shown, and to be shown
  std::vector<Tier> saves_;
  HandMade samples_;
};

/// Policy that moves work from rank 2 to the others at step 12, and counts its calls.
class ShiftOnce : public Policy {
 public:
  Needs needs() const override { return setting<Shares>(kTick); }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    ++calls_;
    if (seen.jobs[{0}].step < 12 || shifted_) {
      decisions.rest();
      return;
    }
    shifted_ = true;
    decisions.add(Configure{{0}, Shares{{12, 12, 4, 12}}}, "rank 2 is slow").at_step =
        seen.jobs[{0}].step + 1;
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
