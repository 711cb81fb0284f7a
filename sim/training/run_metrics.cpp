#include "sim/training/run_metrics.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/estimates/prices/cost_model.hpp"
#include "traces/workload/precision.hpp"

namespace orrery::sim {
namespace {

/// Returns true if every replica has done exactly the micro-batches that it owns, and together
/// these are all micro-batches of the step. This is the normal case, which needs no search for
/// overlaps.
bool is_all(const std::vector<std::uint32_t>& done, const std::vector<std::uint32_t>& class_of,
            const std::vector<std::uint32_t>& per_replica, std::uint64_t all) {
  std::uint64_t sum = 0;
  for (std::size_t replica = 0; replica < per_replica.size(); ++replica) {
    if (done[class_of[replica]] != per_replica[replica]) return false;
    sum += per_replica[replica];
  }
  return sum == all;
}

constexpr std::size_t kStepsListed = 10'000;

/// Returns the median of values, each with the number of its occurrences; 0 without values.
double median(std::vector<std::pair<double, std::uint64_t>> values) {
  std::sort(values.begin(), values.end());
  std::uint64_t all = 0, below = 0;
  for (const auto& [value, count] : values) all += count;
  for (std::size_t i = 0; i < values.size(); ++i) {
    below += values[i].second;
    if (2 * below > all) return values[i].first;
    if (2 * below == all) return (values[i].first + values[i + 1].first) / 2;
  }
  return 0;
}

}  // namespace

RunMetrics::RunMetrics(const Cluster& cluster, std::shared_ptr<const StepGraph> graph, double rest)
    : cluster_(&cluster),
      graph_(std::move(graph)),
      rest_(rest),
      time_(graph_->ranks(), EnergyMeter(cluster)) {}

namespace {

/// Returns the number of micro-batches that all stages of a replica of the class have done.
std::uint32_t done_by(const estimates::SimulatedStep& step, std::size_t of_class) {
  const std::size_t worker = of_class * step.plan.stages;
  std::uint32_t done = step.run.workers[worker].micro_batches;
  for (std::uint32_t stage = 1; stage < step.plan.stages; ++stage) {
    done = std::min(done, step.run.workers[worker + stage].micro_batches);
  }
  return done;
}

}  // namespace

void RunMetrics::discard_work(const estimates::SimulatedStep& step) {
  for (std::size_t c = 0; c < step.plan.classes.size(); ++c) {
    recomputed_ += std::uint64_t{done_by(step, c)} * step.plan.classes[c].members.size();
  }
}

void RunMetrics::enter_steps(const estimates::SimulatedStep& step, std::uint64_t count,
                           const std::vector<std::uint32_t>& per_replica, std::uint64_t all) {
  // The micro-batches of a step have consecutive numbers. Each replica owns an interval of them and
  // has done a prefix. A shorter prefix leaves lost micro-batches; a prefix beyond the own interval
  // repeats micro-batches of the next replicas.
  std::vector<std::uint32_t> done;
  for (std::size_t c = 0; c < step.plan.classes.size(); ++c) done.push_back(done_by(step, c));
  if (is_all(done, step.plan.class_of, per_replica, all)) return;
  std::uint64_t first = 0, reached = 0, entered = 0;  // `reached`: end of all done intervals
  std::uint64_t covered = 0;
  for (std::size_t replica = 0; replica < per_replica.size(); ++replica) {
    const std::uint64_t end = std::min(all, first + done[step.plan.class_of[replica]]);
    if (end > first) entered += end - first;
    if (end > std::max(first, reached)) covered += end - std::max(first, reached);
    reached = std::max(reached, end);
    first += per_replica[replica];
  }
  lost_ += (all - covered) * count;
  repeated_ += (entered - covered) * count;
}

void RunMetrics::commit_steps(const estimates::SimulatedStep& step, Nanos duration,
                            std::uint64_t count, const std::vector<std::uint32_t>& per_replica,
                            std::uint32_t batch, const std::vector<double>& stretch) {
  enter_steps(step, count, per_replica, batch);
  micro_batches_.add_steps(count, batch);
  record_duration(duration, count);
  const double whole = to_seconds(duration);
  wire_bytes_ += step.wire_bytes * static_cast<double>(count);
  add_phases(step, whole, count, stretch);
  spend_time(step, duration, count, stretch);
}

void RunMetrics::roll_back(Step from, Step to) {
  time_.roll_back(to);
  const std::uint64_t again = std::min(steps_, from - std::min(from, to));
  steps_ -= again;
  rolled_back_ += again;
  micro_batches_.roll_back(again);
}

void RunMetrics::record_duration(Nanos duration, std::uint64_t count) {
  steps_ += count;
  if (!durations_.empty() && durations_.back().first == duration) {
    durations_.back().second += count;
  } else {
    durations_.emplace_back(duration, count);
  }
  for (std::uint64_t i = 0; i < count && first_steps_.size() < kStepsListed; ++i) {
    first_steps_.push_back(to_seconds(duration));
  }
}

void RunMetrics::add_told_steps(Nanos duration, std::uint64_t count, std::uint32_t batch) {
  micro_batches_.add_steps(count, batch);
  if (count > 0) record_duration(duration / static_cast<Nanos>(count), count);
}

void RunMetrics::add_phases(const estimates::SimulatedStep& step, double whole, std::uint64_t count,
                            const std::vector<double>& stretch) {
  const estimates::StepParts of = estimates::parts_of(step, whole, stretch);
  const Parts parts{.compute = of.compute, .exchange = of.exchange,
                    .update = std::max(0.0, of.tail - rest_), .count = count};
  Parts* last = parts_.empty() ? nullptr : &parts_.back();
  if (last != nullptr && last->compute == parts.compute && last->exchange == parts.exchange &&
      last->update == parts.update) {
    last->count += count;
  } else {
    parts_.push_back(parts);
  }
}

void RunMetrics::fill_phases(Report& report) const {
  const auto median_of = [this](double Parts::*part) {
    std::vector<std::pair<double, std::uint64_t>> sorted;
    for (const Parts& each : parts_) sorted.emplace_back(each.*part, each.count);
    return median(std::move(sorted));
  };
  Phases& phases = *report.mutable_phases();
  phases.set_compute_s(median_of(&Parts::compute));
  phases.set_exchange_s(median_of(&Parts::exchange));
  phases.set_update_s(median_of(&Parts::update));
  phases.set_rest_s(rest_);
}

/// The replicas of a class are equal without noise and count as one entry; with noise each replica
/// has its own stretch.
void RunMetrics::spend_time(const estimates::SimulatedStep& step, Nanos duration,
                            std::uint64_t count, const std::vector<double>& stretch) {
  struct Share {
    std::size_t of_class;
    double replicas, stretch;
  };
  std::vector<Share> shares;
  for (std::size_t r = 0; r < stretch.size(); ++r) {
    shares.push_back({step.plan.class_of[r], 1, stretch[r]});
  }
  for (std::size_t c = 0; stretch.empty() && c < step.plan.classes.size(); ++c) {
    shares.push_back({c, static_cast<double>(step.plan.classes[c].members.size()), 1});
  }
  const double whole = to_seconds(duration);
  std::array<double, kStepUses> spent{};
  double products = 0, memory = 0;
  for (std::uint32_t stage = 0; stage < step.plan.stages; ++stage) {
    const auto run_of = [&](const Share& share) -> const estimates::WorkerRun& {
      return step.run.workers[share.of_class * step.plan.stages + stage];
    };
    double slowest = 0;
    for (const Share& share : shares) {
      slowest = std::max(slowest, run_of(share).passes_end * share.stretch);
    }
    const double after = whole - slowest;
    for (const Share& share : shares) {
      const estimates::WorkerRun& run = run_of(share);
      const double kernels = run.compute - run.tail;  // kernel time of the passes
      const double computing = share.replicas * (kernels * share.stretch + run.tail);
      spent[0] += computing;
      const auto [of_products, of_memory] = estimates::kernel_shares(run);
      products += computing * of_products;
      memory += computing * of_memory;
      const double input_tail = std::clamp(after - run.tail, 0.0, step.run.input_tail);
      const double exposed = std::max(0.0, run.exposed - run.input);
      spent[1] += share.replicas * ((run.passes - kernels + exposed) * share.stretch +
                                    std::max(0.0, after - run.tail - input_tail));
      spent[2] += share.replicas * (run.passes_end - run.passes - run.exposed) * share.stretch;
      spent[3] += share.replicas * (slowest - run.passes_end * share.stretch);
      spent[4] += share.replicas * (run.input * share.stretch + input_tail);
    }
  }
  // The layout of the steps may differ from that of the first ones.
  const std::uint32_t replica = step.plan.stages * step.plan.members;
  const double replicas = static_cast<double>(graph_->ranks()) / replica;
  busy_s_ += (spent[0] + spent[1]) * static_cast<double>(count) / replicas / step.plan.stages;
  const double gaps = std::max(0.0, spent[0] - products - memory);  // time between kernels
  const double waits = spent[2] + spent[3] + spent[4] + gaps;
  time_.commit_steps(duration * static_cast<Nanos>(count), spent,
                     static_cast<std::uint32_t>(step.plan.class_of.size()) * replica,
                     {.time = {products, memory, spent[1], waits, 0},
                      .clock = step.run.clock});
}

double RunMetrics::median_step() const {
  std::vector<std::pair<double, std::uint64_t>> values;
  for (const auto& [duration, count] : durations_) {
    values.emplace_back(to_seconds(duration), count);
  }
  return median(std::move(values));
}

/// A run that continues a log draws the mean power of its own steps before them, too.
void RunMetrics::fill_energy(Report& report, double elapsed) const {
  const double own = elapsed - began_s_;
  if (began_s_ > 0 && own <= 0) return;
  time_.meter().fill(report, began_s_ > 0 ? elapsed / own : 1, elapsed, graph_->ranks());
}

void RunMetrics::fill(Report& report, Nanos elapsed_ns, double fault_free) const {
  report.set_steps_completed(steps_);
  if (rolled_back_ > 0) report.set_steps_rolled_back(rolled_back_);
  report.set_micro_batches_lost(lost_);
  report.set_micro_batches_repeated(repeated_);
  report.set_micro_batches_recomputed(recomputed_);
  const double elapsed = to_seconds(elapsed_ns);
  if (steps_ > 0) report.set_elapsed_s(elapsed);
  for (const double each : first_steps_) report.add_step_times_s(each);
  if (steps_ == 0 || elapsed <= 0) return;

  const double gpus = graph_->ranks();
  // Steps of the declared batch with as many micro-batches.
  const double steps =
      static_cast<double>(micro_batches_.total()) / static_cast<double>(graph_->micro_batches());
  report.set_samples(samples());
  report.set_step_time_s(median_step());
  fill_phases(report);
  if (graph_->data() > 1) report.set_bytes_on_wire(wire_bytes_);
  report.set_tokens_per_s(graph_->tokens() * steps / elapsed);
  const FlopPerSecond peak =
      cluster_->gpu_model().peak(estimates::product_precision(precision_of(graph_->job())));
  report.set_mfu(graph_->model_flop().value * steps / (peak.value * gpus * elapsed));
  report.set_fault_free_step_time_s(fault_free);
  report.set_goodput(std::min(1.0, fault_free * steps / elapsed));

  fill_time(report);
  // The use of the GPUs is unknown if a run that continues a log commits no step of its own.
  if (elapsed > began_s_) {
    report.set_gpu_utilization(std::min(1.0, busy_s_ / (elapsed - began_s_)));
    fill_energy(report, elapsed);
  }
  const DollarsPerSecond price = cluster_->price().per_gpu;
  if (price.value <= 0) return;
  report.set_cost_usd(price.value * gpus * elapsed);
  report.set_cost_per_million_tokens_usd(report.cost_usd() / (graph_->tokens() * steps) * 1e6);
}

void RunMetrics::fill_time(Report& report) const {
  const auto total = static_cast<double>(time_.total()) * 1e-9;
  if (total <= 0) return;
  time_.fill(*report.mutable_gpu_time());
  Breakdown& parts = *report.mutable_breakdown();
  parts.set_compute(time_.seconds(GpuUse::computing) / total);
  parts.set_exposed_communication(time_.seconds(GpuUse::exposed_communication) / total);
  parts.set_bubble(time_.seconds(GpuUse::bubble) / total);
  parts.set_waiting(time_.seconds(GpuUse::waiting) / total);
  parts.set_input(time_.seconds(GpuUse::input) / total);
  double lost = 0;
  for (std::size_t use = kStepUses; use < kGpuUses; ++use) {
    lost += time_.seconds(static_cast<GpuUse>(use));
  }
  parts.set_lost(lost / total);
}

}  // namespace orrery::sim
