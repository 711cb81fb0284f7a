#include "sim/training/telemetry.hpp"

#include <algorithm>
#include <utility>

#include "core/random.hpp"
#include "sim/estimates/plan/plan.hpp"

namespace orrery::sim {
namespace {

/// Fields of a sample, so that each has an error of its own.
enum Field : std::uint64_t {
  done,
  micro_batch,
  wait,
  busy,
  memory_rate,
  memory_used,
  power,
  latency,
  bandwidth,
  fields
};

}  // namespace

Telemetry::Telemetry(const Cluster& cluster, const StepGraph& graph,
                     const std::vector<GpuId>& placement, const Noise& noise, std::uint64_t seed)
    : cluster_(cluster),
      graph_(graph),
      placement_(placement),
      compute_cv_(noise.compute_cv()),
      sample_cv_(noise.sample_cv()),
      gradient_variance_(noise.gradient_variance()),
      declared_(declared_noise(graph.job())),
      staleness_(noise.staleness()),
      source_(source_of(seed)),
      later_(source_) {
  const std::uint32_t share = (graph.micro_batches() + graph.data() - 1) / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    memory_.push_back(graph.memory(stage, share).total().value);
  }
}

Telemetry::Source Telemetry::source_of(std::uint64_t seed) const {
  return {.compute = RankNoise(compute_cv_, graph_.members() * graph_.pipeline(),
                               Rng(seed).split_stream("compute").next()),
          .sample = Rng(seed).split_stream("sample").next()};
}

void Telemetry::reseed_noise(Nanos from, std::uint64_t seed) {
  later_ = source_of(seed);
  reseeded_ = from;
}

void Telemetry::begin_step(estimates::PlayedStep played) {
  steps_.push_back(std::move(played));
  // From now on nothing older is looked at than this, and the step before it.
  const Nanos oldest = steps_.back().start() - staleness_;
  while (steps_.size() > 2 && steps_[2].start() <= oldest) steps_.pop_front();
}

const estimates::PlayedStep* Telemetry::at(Nanos instant,
                                           const estimates::PlayedStep** before) const {
  *before = nullptr;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (instant < step->start()) continue;
    if (step + 1 != steps_.rend()) *before = &*(step + 1);
    return &*step;
  }
  return nullptr;
}

Sample<double> Telemetry::sample(double value, Nanos now, std::uint64_t place) const {
  const double error =
      sample_cv_ == 0
          ? 0
          : sample_cv_ * normal_at(source(now).sample, static_cast<std::uint64_t>(now), place);
  return {.value = value * (1 + error), .age = staleness_, .origin = Origin::measured};
}

/// Returns a rank's time as a fraction of the slowest rank's, which is the replica's.
double Telemetry::rank_stretch(const estimates::PlayedStep& step,
                               const StepGraph::Position& at) const {
  if (step.stretch().empty()) return 1;
  const std::uint32_t rank = at.stage * graph_.members() + at.member;
  const RankNoise& noise = source(step.start()).compute;
  return noise.of_rank(step.step(), at.replica, rank) / step.stretch()[at.replica];
}

RankSample Telemetry::rank_sample(Nanos now, std::uint32_t rank, Look& look) const {
  RankSample out{.job = {0},
                 .rank = {rank},
                 .step = 0,
                 .micro_batches_done = {},
                 .micro_batch_time = {},
                 .wait_time = {},
                 .gradient_variance = {}};
  const estimates::PlayedStep *const step = look.step, *const before = look.before;
  if (step == nullptr) return out;
  const auto [replica, stage, member] = graph_.position({rank});
  if (replica != look.replica || stage != look.stage) {
    look.replica = replica;
    look.stage = stage;
    look.done = step->done(replica, stage, now - staleness_);
  }
  const std::uint64_t place = std::uint64_t{rank} * fields;
  out.step = step->step();
  const double count = step->micro_batches(replica);
  const double exact = look.done;
  out.micro_batches_done = sample(exact, now, place + done);
  out.micro_batches_done.value = std::clamp(out.micro_batches_done.value, 0.0, count);
  const estimates::PlayedStep* timed = exact >= 1 ? step : before;
  if (timed != nullptr && timed->micro_batches(replica) > 0) {
    const double own = rank_stretch(*timed, {replica, stage, member});
    out.micro_batch_time =
        sample(timed->micro_batch_time(replica, stage) * own, now, place + micro_batch);
  }
  if (declared_.at_start > 0) {
    if (step->step() > 0) add_gradients(before != nullptr ? *before : *step, replica, out);
  } else if (before != nullptr && gradient_variance_ > 0) {
    out.gradient_variance = {gradient_variance_, staleness_, Origin::modelled};
  }
  if (before != nullptr) {
    out.wait_time = sample(before->wait_time(replica, stage), now, place + wait);
  }
  return out;
}

/// A gradient of b sequences has the expected square |G|^2 (1 + N / b); N is the noise scale.
void Telemetry::add_gradients(const estimates::PlayedStep& newest, std::uint32_t replica,
                              RankSample& out) const {
  const auto modelled = [this](double value) {
    return Sample<double>{value, staleness_, Origin::modelled};
  };
  const double noise = declared_.noise_scale(newest.step()).value_or(0);
  out.noise_scale = modelled(noise);
  double all = 0;
  for (std::uint32_t each = 0; each < graph_.data(); ++each) all += newest.micro_batches(each);
  const double own = newest.micro_batches(replica), each = graph_.job().micro_batch();
  if (own == 0 || graph_.data() < 2) return;
  out.gradient_variance = modelled((1 + noise / (own * each)) / (1 + noise / (all * each)) - 1);
}

void Telemetry::ranks(Nanos now, std::vector<RankSample>& out) const {
  out.reserve(out.size() + graph_.ranks());
  Look look;
  look.step = at(now - staleness_, &look.before);
  for (std::uint32_t rank = 0; rank < graph_.ranks(); ++rank) {
    out.push_back(rank_sample(now, rank, look));
  }
}

void Telemetry::devices(Nanos now, std::vector<DeviceSample>& out) const {
  const estimates::PlayedStep* before = nullptr;
  const estimates::PlayedStep* step = at(now - staleness_, &before);
  const GpuModel& gpu = cluster_.gpu_model();
  for (std::uint32_t rank = 0; rank < graph_.ranks(); ++rank) {
    DeviceSample& device = out.emplace_back();
    device.gpu = placement_[rank];
    if (step == nullptr) continue;
    const auto [replica, stage, member] = graph_.position({rank});
    const std::uint64_t place = std::uint64_t{rank} * fields;
    const double used = step->utilization(replica, stage);
    const double rate = step->memory_rate(replica, stage) / gpu.memory_bandwidth.value;
    const Watts drawn = gpu.idle_power + (gpu.max_power - gpu.idle_power) * used;
    device.utilization = sample(used, now, place + busy);
    device.utilization.value = std::clamp(device.utilization.value, 0.0, 1.0);
    device.memory_bandwidth = sample(std::min(1.0, rate), now, place + memory_rate);
    device.memory_used = sample(memory_[stage], now, place + memory_used);
    device.power = sample(drawn.value, now, place + power);
  }
}

void Telemetry::links(Nanos now, const estimates::Stepper& stepper,
                      const estimates::HardwareState& state, std::vector<LinkSample>& out) {
  if (graph_.data() < 2) return;
  if (edges_.empty() || edges_state_ != state) {
    edges_.clear();
    edges_state_ = state;
    std::vector<LinkId> route;
    for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
      std::vector<GpuId> members;
      for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
        members.push_back(placement_[graph_.rank(replica, stage, 0).value]);
      }
      const std::vector<GpuId> ring = estimates::ring_channels(cluster_, members).front();
      for (std::size_t i = 0; i < ring.size(); ++i) {
        Edge edge{.from = ring[i], .to = ring[(i + 1) % ring.size()]};
        edge.latency = cluster_.latency(edge.from, edge.to).value;
        route.clear();
        cluster_.route(edge.from, edge.to, route);
        for (const LinkId link : route) {
          const double rate = stepper.effective_bandwidth(link, state);
          edge.bandwidth = edge.bandwidth == 0 ? rate : std::min(edge.bandwidth, rate);
        }
        edges_.push_back(edge);
      }
    }
  }
  if (now < staleness_) return;
  std::uint64_t place = std::uint64_t{graph_.ranks()} * fields;
  for (const Edge& edge : edges_) {
    out.push_back({.from = edge.from,
                   .to = edge.to,
                   .latency = sample(edge.latency, now, place + latency),
                   .bandwidth = sample(edge.bandwidth, now, place + bandwidth)});
    place += fields;
  }
}

std::vector<double> Telemetry::stretch(Step step, Nanos start, std::uint32_t replicas) const {
  const RankNoise& noise = source(start).compute;
  if (noise.none()) return {};
  std::vector<double> factors(replicas);
  for (std::uint32_t replica = 0; replica < replicas; ++replica) {
    factors[replica] = noise.slowest(step, replica);
  }
  return factors;
}

}  // namespace orrery::sim
