#include "sim/estimates/predict/own_runs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "sim/estimates/predict/estimate.hpp"
#include "sim/estimates/predict/interval.hpp"
#include "sim/estimates/predict/run_class.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

/// Standard deviation of runs of one software among themselves, runs as which this prior counts,
/// the least standard deviation of a software from its shipped stack, and the standard errors
/// within which the median of several runs is no evidence of a deviation. Chosen among a few for
/// the coverage that `./dev bench own` prints.
constexpr double kWithin = 0.18, kPriorRuns = 2, kLeastBetween = 0.2, kErrors = 2;
/// Standard error of a median over that of a mean, for many normal values: sqrt(pi / 2).
constexpr double kOfMedian = 1.2533141373155001;
constexpr double kP90 = 1.2815515655446004;
/// Rounds in which the times of the stack approach the shift.
constexpr int kRounds = 3;
constexpr double kLeastSpread = 0.01, kMostSpread = 2;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct Variances {
  double between, within;
};

double shift_of(const std::vector<double>& deviations, Variances of) {
  const auto count = static_cast<double>(deviations.size());
  const double median = median_of(deviations);
  const double error = kOfMedian * std::sqrt(of.within / count);
  if (count > 1 && std::abs(median) < kErrors * error) return 0;
  return median * of.between / (of.between + of.within / count);
}

/// Returns the 90% quantile of Student's t over that of the normal distribution, by the expansion
/// of Abramowitz and Stegun 26.7.5: within 0.4% from 2 degrees of freedom on.
double tail_factor(double degrees) {
  const double z = kP90, z2 = z * z;
  const double first = (z2 + 1) / 4, second = ((5 * z2 + 16) * z2 + 3) / 96,
               third = (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  return 1 + first / degrees + second / (degrees * degrees) + third / std::pow(degrees, 3);
}

/// Returns the root mean square of each deviation from the shift of the others; 0 for one.
double left_out_spread(const std::vector<double>& deviations, Variances of) {
  if (deviations.size() < 2) return 0;
  double squares = 0;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    std::vector<double> others = deviations;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    squares += std::pow(deviations[i] - shift_of(others, of), 2);
  }
  return std::sqrt(squares / static_cast<double>(deviations.size()));
}

/// Multiplies or divides a factor within the limits of the schema.
double limited(double value, double least) { return std::clamp(value, least, 10.0); }

std::int64_t times_of(std::int64_t time, double factor) {
  return std::llround(static_cast<double>(time) * factor);
}

/// Returns the stack with all its times multiplied by `factor`.
SoftwareStack slowed_stack(SoftwareStack s, double factor) {
  s.set_gemm(limited(s.gemm() / factor, 0.1));
  s.set_gemm_low(limited(s.gemm_low() / factor, 0.1));
  s.set_attention(limited(s.attention() / factor, 0.1));
  s.set_nvlink(limited(s.nvlink() / factor, 0.1));
  s.set_network(limited(s.network() / factor, 0.01));
  s.set_memory_bytes(limited(s.memory_bytes() * factor, 0.01));
  s.set_latency(std::clamp(s.latency() * factor, 0.1, 100.0));
  s.set_update_bytes(std::clamp(s.update_bytes() * factor, 0.1, 100.0));
  s.set_loss_bytes(limited(s.loss_bytes() * factor, 0.01));
  s.set_layer_gap(times_of(s.layer_gap(), factor));
  s.set_step_gap(times_of(s.step_gap(), factor));
  s.set_host_layer(times_of(s.host_layer(), factor));
  s.set_host_tensor(times_of(s.host_tensor(), factor));
  s.set_host_experts(times_of(s.host_experts(), factor));
  s.set_host_stages(times_of(s.host_stages(), factor));
  s.set_transfer_gap(times_of(s.transfer_gap(), factor));
  s.set_transfer_stall(times_of(s.transfer_stall(), factor));
  s.set_group_gap(times_of(s.group_gap(), factor));
  s.set_host_update(times_of(s.host_update(), factor));
  return s;
}

/// Runs with their clusters, priced under one stack after the other.
class PricedRuns {
 public:
  explicit PricedRuns(const std::vector<OwnRun>& runs) : runs_(runs) {
    for (const OwnRun& each : runs) {
      clusters_.push_back(build_cluster(each.run.cluster, {}, "cluster"));
    }
  }

  std::vector<double> times_under(const SoftwareStack& stack) const {
    std::vector<double> times;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      Job job = runs_[i].run.job;
      *job.mutable_software() = stack;
      times.push_back(estimate_step(job, clusters_[i]).step_s);
      if (!std::isfinite(times.back()) || times.back() <= 0) {
        throw Error(ErrorKind::bad_input,
                    runs_[i].id + ": expected a run with a step time, found none that is finite");
      }
    }
    return times;
  }
  /// Returns the median standard deviation of the shipped intervals.
  double prior_spread() const {
    std::vector<double> spreads;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Interval interval =
          interval_of(1, runs_[i].run.job, runs_[i].run.assumed.empty(), clusters_[i].gpu_model());
      spreads.push_back(std::log(interval.p90_s / interval.p10_s) / (2 * kP90));
    }
    return median_of(std::move(spreads));
  }
  void mark_measured(double spread, SoftwareStack& stack) const;

 private:
  const std::vector<OwnRun>& runs_;
  std::vector<Cluster> clusters_;
};

/// Writes the spread and the classes of the runs at the GPUs of the runs, and clears all other
/// classes, which were measured under the shipped stack.
void PricedRuns::mark_measured(double spread, SoftwareStack& stack) const {
  for (StackOnGpu& on : *stack.mutable_on()) on.clear_measured();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const GpuModel& gpu = clusters_[i].gpu_model();
    const StackOnGpu* found = stack_on_gpu(stack, gpu.name, gpu.family);
    StackOnGpu* on = nullptr;
    for (StackOnGpu& each : *stack.mutable_on()) {
      if (&each == found) on = &each;
    }
    if (on == nullptr) {
      on = stack.add_on();
      on->add_gpus(gpu.name);
      for (const auto set :
           {&StackOnGpu::set_compute, &StackOnGpu::set_low, &StackOnGpu::set_experts}) {
        (on->*set)(1);
      }
    }
    on->set_spread(spread);
    const std::string of = run_class(runs_[i].run.job, gpu);
    const auto& known = on->measured();
    if (std::find(known.begin(), known.end(), of) == known.end()) on->add_measured(of);
  }
}

/// Returns the stack of all runs.
SoftwareStack common_stack(const std::vector<OwnRun>& runs) {
  std::set<std::string> names;
  for (const OwnRun& each : runs) names.insert(each.run.job.stack());
  if (names.size() != 1) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected runs of one software, found {}",
                            names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  return software_stack(*names.begin());
}

std::vector<double> deviations_of(const std::vector<OwnRun>& runs,
                                  const std::vector<double>& times) {
  std::vector<double> deviations;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    deviations.push_back(std::log(runs[i].measured_s / times[i]));
  }
  return deviations;
}

}  // namespace

Shrunk shrink(const std::vector<double>& deviations, double prior_spread) {
  const auto count = static_cast<double>(deviations.size());
  const double mean = mean_of(deviations);
  double squares = kPriorRuns * kWithin * kWithin;
  for (const double each : deviations) squares += std::pow(each - mean, 2);
  const double within = squares / (kPriorRuns + count - 1);
  const double between =
      std::max(prior_spread * prior_spread - kWithin * kWithin, kLeastBetween * kLeastBetween);
  const Variances of{between, within};
  const double of_another = within + between * within / (count * between + within);
  const double spread = std::max(std::sqrt(of_another) * tail_factor(kPriorRuns + count - 1),
                                 left_out_spread(deviations, of));
  return {median_of(deviations), shift_of(deviations, of),
          std::clamp(spread, kLeastSpread, kMostSpread)};
}

OwnStack fit_own_stack(const std::vector<OwnRun>& runs, const std::string& name,
                       const SoftwareStack* basis) {
  const SoftwareStack shipped = basis != nullptr ? *basis : common_stack(runs);
  common_stack(runs);
  const PricedRuns priced(runs);
  OwnStack own;
  own.prior_spread = priced.prior_spread();
  own.before_s = priced.times_under(shipped);
  const std::vector<double> before = deviations_of(runs, own.before_s);
  own.shrunk = shrink(before, own.prior_spread);
  double factor = std::exp(own.shrunk.shift);
  for (int round = 0; round < kRounds; ++round) {
    own.stack = slowed_stack(shipped, factor);
    own.after_s = priced.times_under(own.stack);
    const double reached = median_of(before) - median_of(deviations_of(runs, own.after_s));
    if (std::abs(reached - own.shrunk.shift) < 1e-4) break;
    factor *= std::exp(own.shrunk.shift - reached);
  }
  own.stack.set_name(name);
  own.stack.set_kin(runs.front().run.job.stack());
  priced.mark_measured(own.shrunk.spread, own.stack);
  own.stack.clear_source();
  own.stack.add_source(fmt::format(
      "{} measured runs (orrery calibrate --runs): times of {} x {:.4f}, median of measured over "
      "predicted {:.4f}",
      runs.size(), own.stack.kin(), std::exp(own.shrunk.shift), std::exp(own.shrunk.median)));
  return own;
}

}  // namespace orrery::estimates
