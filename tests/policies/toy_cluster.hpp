// A training job in a hundred lines, to try scheduling policies on: replicas of one rank each with
// declared speeds, multiplicative noise, ticks with fractional progress, shifts that take effect
// at their step. Shares nothing with the simulator. Times are seconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policies/rebalancing/shares.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::test {

/// Options of the toy cluster.
struct ToyOptions {
  std::uint32_t replicas = 4;
  std::uint32_t micro_batches = 40;      ///< count in one step, all replicas together
  std::uint32_t max_micro_batches = 0;   ///< limit of one replica
  double micro_batch = 0.1;              ///< seconds at factor 1
  Step steps = 40;
  double step_noise = 0;                 ///< cv of a rank's step compute time
  double sample_noise = 0;               ///< cv of every sampled value
  double tick = 0.05, staleness = 0.01;
  std::uint64_t seed = 1;
  bool signals = true;                   ///< device and link samples
  double bandwidth_share = 0;            ///< memory bandwidth falls by this share of (1 - 1/factor)
  std::vector<std::uint32_t> identity;   ///< rank i behaves as rank identity[i]; empty: as i
  std::function<double(std::uint32_t rank, Step step)> factor = [](auto, auto) { return 1.0; };
  std::function<void(RankSample&, Step)> spoil;  ///< damages a sample before it is shown
  std::function<void(Step)> before_step;
};

/// Change of a rank's speed at an instant.
struct ToyShift {
  Step decided = 0, effective = 0;
  double at = 0;  ///< seconds since the decision's step began
  ShareList shares;
  std::string why;
  bool operator==(const ToyShift&) const = default;
};

/// Result of a toy run.
struct ToyResult {
  std::vector<double> step_times;
  std::vector<ToyShift> shifts;
  std::uint64_t calls = 0, rested = 0;
  bool lost_micro_batches = false;

  double median_step() const {
    std::vector<double> sorted = step_times;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

inline const Cluster& toy_machines() {
  static const Cluster cluster(
      GpuModel{.name = "toy", .memory = {1e9}, .memory_bandwidth = {1e9}, .fp32 = {1e9},
               .tf32 = {}, .bf16 = {1e9}, .fp8 = {}, .fp4 = {}, .nvlink = {1e9}, .pcie = {1e9},
               .idle_power = {}, .max_power = {}},
      {.nodes = 4, .gpus_per_node = 8, .nics_per_node = 8, .nodes_per_unit = 4, .spines = 1,
       .nic_bandwidth = {1e9}, .spine_link_bandwidth = {1e9}, .nvlink_latency = {1e-6},
       .nic_latency = {1e-6}, .hop_latency = {1e-6}, .host_power = {}},
      {});
  return cluster;
}

/// Toy training job for tests of scheduling policies.
class ToyCluster {
 public:
  explicit ToyCluster(ToyOptions options) : options_(std::move(options)) {
    JobSpec job = toy::job(0, options_.micro_batches);
    job.gpus = job.layout.data = options_.replicas;
    job.max_micro_batches = options_.max_micro_batches;
    job.nominal_micro_batch_time = 0;
    job.steps = options_.steps;
    toy::run_on(world_, std::move(job));
    const Rng seed(options_.seed);
    for (std::uint32_t i = 0; i < options_.replicas; ++i) {
      noise_.push_back(seed.split_stream("rank" + std::to_string(who(i))));
    }
    last_.assign(options_.replicas, 0);
  }

  /// Runs all steps under a policy that has been started.
  ToyResult run(Policy& policy) {
    for (Step step = 0; step < options_.steps; ++step) run_step(policy, step);
    return result_;
  }

 private:
  std::uint32_t who(std::uint32_t rank) const {
    return options_.identity.empty() ? rank : options_.identity[rank];
  }
  double noisy(std::uint32_t rank, double cv) { return 1 + cv * noise_[rank].normal(); }

  const JobInfo& job() const { return world_.jobs()[{0}]; }

  void run_step(Policy& policy, Step step) {
    if (options_.before_step) options_.before_step(step);
    std::vector<double> per(options_.replicas);
    double length = 0;
    for (std::uint32_t i = 0; i < options_.replicas; ++i) {
      per[i] = options_.micro_batch * options_.factor(who(i), step) *
               noisy(i, options_.step_noise);
      length = std::max(length, per[i] * job().shares()[i]);
    }
    const double end = began_ + length;
    for (; next_tick_ < end; next_tick_ += options_.tick)
      show_event(policy, next_tick_, per, Tick{});
    last_ = per;
    result_.step_times.push_back(length);
    began_ = end;
    const StepsDone done{{0}, step, 1, to_nanos(length)};
    world_.apply(done, to_nanos(end));
    if (job().step < options_.steps) show_event(policy, end, {}, done);
  }

  /// One observation; without `per`, an event between two steps and no samples.
  void show_event(Policy& policy, double now, const std::vector<double>& per, const Event& event) {
    samples_.clear();
    for (std::uint32_t i = 0; i < per.size(); ++i) {
      sample(i, std::max(now - options_.staleness - began_, 0.0), per[i]);
    }
    Rng rng(options_.seed);
    Context context{.rng = rng, .backend = {}};
    decisions_.clear();
    policy.observe(context,
                   toy::seen_of(world_, {&event, 1}, samples_, to_nanos(now), result_.calls),
                   decisions_);
    ++result_.calls;
    if (decisions_.is_resting()) ++result_.rested;
    for (const Decision& decision : decisions_.items()) apply_decision(decision, now);
  }

  template <class T>
  Sample<T> sampled(std::uint32_t rank, T value) {
    return {value * noisy(rank, options_.sample_noise), to_nanos(options_.staleness),
            Origin::modelled};
  }

  void sample(std::uint32_t rank, double since, double per) {
    const double share = job().shares()[rank];
    const double done = std::min(since / per, share);
    RankSample out{};
    out.rank = {rank};
    out.step = job().step;
    out.micro_batches_done = {done, to_nanos(options_.staleness), Origin::modelled};
    const double newest = done >= 1 ? per : last_[rank];
    if (newest > 0) out.micro_batch_time = sampled(rank, newest);
    if (options_.spoil) options_.spoil(out, job().step);
    samples_.of_ranks.push_back(out);
    const double busy = done < share ? 0.9 : 0.05;
    const double slow = options_.factor(who(rank), job().step);
    const double bandwidth = 0.6 * (1 - options_.bandwidth_share * (1 - 1 / slow));
    DeviceSample device{};
    device.gpu = {rank};
    device.utilization = sampled(rank, busy);
    device.memory_bandwidth = sampled(rank, bandwidth);
    const GpuId next{(rank + 1) % options_.replicas};
    LinkSample link{.from = {rank}, .to = next, .latency = sampled(rank, 5e-6), .bandwidth = {}};
    if (!options_.signals) return;
    samples_.of_devices.push_back(device);
    samples_.of_links.push_back(link);
  }

  void apply_decision(const Decision& decision, double now) {
    const auto& shares = std::get<Shares>(std::get<Configure>(decision.what).what).per_replica;
    result_.shifts.push_back({job().step, decision.at_step, now - began_, shares, decision.why});
    const std::string against = world_.objection(decision);
    world_.announce_decision(decision);
    const Outcome status = against.empty() ? Outcome::applied : Outcome::rejected;
    world_.apply(Decided{decision.id, status, against}, to_nanos(now));
    const auto sum = std::accumulate(shares.begin(), shares.end(), 0u);
    if (sum != options_.micro_batches || shares.size() != options_.replicas) {
      result_.lost_micro_batches = true;
    }
  }

  ToyOptions options_;
  World world_{toy_machines()};
  toy::HandMade samples_;
  DecisionList decisions_;
  std::vector<Rng> noise_;
  std::vector<double> last_;  ///< micro-batch time of the step before
  double began_ = 0, next_tick_ = 0.05;
  ToyResult result_;
};

}  // namespace orrery::test
