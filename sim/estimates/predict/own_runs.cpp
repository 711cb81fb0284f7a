#include "sim/estimates/predict/own_runs.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
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
#include "traces/workload/job_choices.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

/// Standard deviation of runs of one software among themselves, runs as which this prior counts,
/// the least standard deviation of a software from its shipped stack, and the standard deviation of
/// the parts of a stack. Chosen among a few for the errors and the coverage that `./dev bench own`
/// prints.
constexpr double kWithin = 0.13, kPriorRuns = 2, kLeastBetween = 0.2, kBetweenParts = 0.6;
/// Rounds in which the variance of the runs and the fit approach each other.
constexpr int kVarianceRounds = 3;
/// Step of the logarithm of a part's times, for its share.
constexpr double kShareStep = 0.1;
constexpr double kP90 = 1.2815515655446004;
/// Software whose shipped stack was fitted on the GPUs of the runs: share that deviates from the
/// stack, standard deviation of this share, scale of the runs of one software (t, 3 degrees).
constexpr double kDeviating = 0.2, kDeviation = 0.5, kRunScale = 0.2;
/// Rounds in which the times of the stack approach the shift.
constexpr int kRounds = 3;
constexpr double kLeastSpread = 0.01, kMostSpread = 2;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Coefficients of the fit: d, then u of each part.
constexpr std::size_t kTerms = 1 + kStackParts;
using Terms = std::array<double, kTerms>;
using TermMatrix = std::array<Terms, kTerms>;

Terms terms_of(const PartShares& shares) {
  Terms terms{1};
  std::copy(shares.begin(), shares.end(), terms.begin() + 1);
  return terms;
}

double product(const Terms& a, const Terms& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Terms product(const TermMatrix& matrix, const Terms& of) {
  Terms result{};
  for (std::size_t i = 0; i < kTerms; ++i) result[i] = product(matrix[i], of);
  return result;
}

/// Returns the inverse of a positive definite matrix, by elimination.
TermMatrix inverse(TermMatrix of) {
  TermMatrix result{};
  for (std::size_t i = 0; i < kTerms; ++i) result[i][i] = 1;
  for (std::size_t i = 0; i < kTerms; ++i) {
    const double pivot = of[i][i];
    for (std::size_t k = 0; k < kTerms; ++k) of[i][k] /= pivot, result[i][k] /= pivot;
    for (std::size_t j = 0; j < kTerms; ++j) {
      if (j == i) continue;
      const double factor = of[j][i];
      for (std::size_t k = 0; k < kTerms; ++k) {
        of[j][k] -= factor * of[i][k];
        result[j][k] -= factor * result[i][k];
      }
    }
  }
  return result;
}

/// Posterior of the terms for runs with the variance `within`.
struct Posterior {
  Terms means{};
  std::vector<double> leverages;  ///< weight of each run in its own fit
  std::vector<double> rests;      ///< deviation of each run from the fit

  double all_leverages() const {
    return std::accumulate(leverages.begin(), leverages.end(), 0.0);
  }
};

Posterior posterior_of(const std::vector<OwnDeviation>& deviations, double between,
                       double within) {
  TermMatrix precision{};
  Terms weighted{};
  precision[0][0] = 1 / between;
  for (std::size_t c = 1; c < kTerms; ++c) precision[c][c] = 1 / (kBetweenParts * kBetweenParts);
  for (const OwnDeviation& each : deviations) {
    const Terms terms = terms_of(each.shares);
    for (std::size_t i = 0; i < kTerms; ++i) {
      weighted[i] += terms[i] * each.value / within;
      for (std::size_t k = 0; k < kTerms; ++k) precision[i][k] += terms[i] * terms[k] / within;
    }
  }
  const TermMatrix covariance = inverse(precision);
  Posterior of{.means = product(covariance, weighted), .leverages = {}, .rests = {}};
  for (const OwnDeviation& each : deviations) {
    const Terms terms = terms_of(each.shares);
    of.leverages.push_back(product(terms, product(covariance, terms)) / within);
    of.rests.push_back(each.value - product(terms, of.means));
  }
  return of;
}

double squares_of(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

/// Returns the deviations without the shares of a kernel of attention that all runs use: its factor
/// is attention's.
std::vector<OwnDeviation> without_common_kernel(std::vector<OwnDeviation> deviations) {
  for (const StackPart kernel : {kFlash1, kFlash2}) {
    const bool is_common =
        std::all_of(deviations.begin(), deviations.end(), [kernel](const OwnDeviation& each) {
          return each.shares[kernel] == each.shares[kAttention];
        });
    if (!is_common) continue;
    for (OwnDeviation& each : deviations) each.shares[kernel] = 0;
  }
  return deviations;
}

std::vector<double> values_of(const std::vector<OwnDeviation>& deviations) {
  std::vector<double> values;
  for (const OwnDeviation& each : deviations) values.push_back(each.value);
  return values;
}

/// Returns the 90% quantile of Student's t over that of the normal distribution, by the expansion
/// of Abramowitz and Stegun 26.7.5: within 0.4% from 2 degrees of freedom on.
double tail_factor(double degrees) {
  const double z = kP90, z2 = z * z;
  const double first = (z2 + 1) / 4, second = ((5 * z2 + 16) * z2 + 3) / 96,
               third = (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  return 1 + first / degrees + second / (degrees * degrees) + third / std::pow(degrees, 3);
}

/// Returns the deviation of each run from a fit to the other ones.
std::vector<double> left_out_rests(const Posterior& of) {
  std::vector<double> rests = of.rests;
  for (std::size_t i = 0; i < rests.size(); ++i) rests[i] /= 1 - of.leverages[i];
  return rests;
}

/// Returns the share of the fits, from 0 to 1, of which the deviations have the least sum of
/// absolute distances: the median of value / fit, weighted by the fit. `rests`: the deviations
/// less their fits.
double share_of_fits(const std::vector<double>& values, const std::vector<double>& rests) {
  std::vector<std::pair<double, double>> ratios;  // ratio and weight
  double all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double fit = values[i] - rests[i];
    if (fit == 0) continue;
    ratios.emplace_back(values[i] / fit, std::abs(fit));
    all += std::abs(fit);
  }
  std::sort(ratios.begin(), ratios.end());
  double below = 0;
  for (const auto& [ratio, weight] : ratios) {
    below += weight;
    if (below >= all / 2) return std::clamp(ratio, 0.0, 1.0);
  }
  return 0;
}

/// Deviation of a software from the stack that was fitted on the GPU, after one of its runs.
/// Weights of deviations in steps of 0.01.
class OneRunPosterior {
 public:
  explicit OneRunPosterior(double value) {
    double slab = 0;
    for (int i = -kSteps; i <= kSteps; ++i) slab += prior_density(i);
    double all = 0;
    for (int i = -kSteps; i <= kSteps; ++i) {
      const double prior =
          kDeviating * prior_density(i) / slab + (i == 0 ? 1 - kDeviating : 0);
      weights_.push_back(prior * run_density(value - at(i)));
      all += weights_.back();
    }
    for (double& each : weights_) each /= all;
  }

  double median() const {
    double below = 0;
    for (int i = -kSteps; i <= kSteps; ++i) {
      below += weight(i);
      if (below >= 0.5) return at(i);
    }
    return at(kSteps);
  }
  /// Returns the distance from the median within which 80% of other runs are.
  double half_width() const {
    const double middle = median();
    double least = 0, most = 2 * at(kSteps);
    for (int round = 0; round < 40; ++round) {
      const double tried = (least + most) / 2;
      double inside = 0;
      for (int i = -kSteps; i <= kSteps; ++i) {
        const double high = middle + tried - at(i), low = middle - tried - at(i);
        inside += weight(i) * (run_share_below(high) - run_share_below(low));
      }
      (inside < 0.8 ? least : most) = tried;
    }
    return most;
  }

 private:
  static constexpr int kSteps = 300;

  static double at(int i) { return 0.01 * i; }
  double weight(int i) const { return weights_[static_cast<std::size_t>(i + kSteps)]; }
  static double prior_density(int i) {
    const double z = at(i) / kDeviation;
    return std::exp(-z * z / 2);
  }
  /// Density of Student's t with 3 degrees of freedom, without its constant, and its integral.
  static double run_density(double distance) {
    const double t = distance / kRunScale;
    return std::pow(1 + t * t / 3, -2);
  }
  static double run_share_below(double distance) {
    const double t = distance / kRunScale / std::numbers::sqrt3;
    return 0.5 + (t / (1 + t * t) + std::atan(t)) / std::numbers::pi;
  }

  std::vector<double> weights_;
};

double limited_spread(double spread) { return std::clamp(spread, kLeastSpread, kMostSpread); }

/// Returns the posterior after one run of a software whose stack was fitted on the run's GPUs.
Shrunk one_run_shrunk(double value) {
  const OneRunPosterior of(value);
  Shrunk found;
  found.median = value;
  found.shift = found.common = of.median();
  found.spread = limited_spread(of.half_width() / kP90);
  return found;
}

/// Fit to deviations under one pair.
struct PairFit {
  Shrunk shrunk;        ///< median and shift are not set
  double distance = 0;  ///< sum of the absolute distances of the runs from fits to the other ones
};

/// Fits the common deviation and the parts to the deviations less their changes under a pair.
PairFit fit_under(std::size_t pair, std::vector<OwnDeviation> deviations, const OwnPrior& prior) {
  for (OwnDeviation& each : deviations) each.value -= each.under_pair[pair];
  const auto count = static_cast<double>(deviations.size());
  const std::vector<double> values = values_of(deviations);
  const double least_within = kWithin * kWithin;
  const double between =
      std::max(prior.spread * prior.spread - least_within, kLeastBetween * kLeastBetween);
  double within = least_within, degrees = kPriorRuns;
  for (int round = 0; round < kVarianceRounds; ++round) {
    const Posterior of = posterior_of(deviations, between, within);
    degrees = kPriorRuns + std::max(0.0, count - of.all_leverages());
    within = (kPriorRuns * least_within + squares_of(of.rests)) / degrees;
  }
  const Posterior of = posterior_of(deviations, between, within);
  PairFit found;
  double variance = within, left = 0, share = 1;
  if (values.size() > 1) {
    std::vector<double> rests = left_out_rests(of);
    share = squares_of(values) / count > least_within ? share_of_fits(values, rests) : 0;
    for (std::size_t i = 0; i < rests.size(); ++i) {
      rests[i] = values[i] - share * (values[i] - rests[i]);
      found.distance += std::abs(rests[i]);
    }
    left = squares_of(rests) / count;
  }
  if (share > 0) variance *= 1 + of.all_leverages() / count;
  found.shrunk.common = share * of.means[0];
  for (std::size_t c = 0; c < kStackParts; ++c) found.shrunk.parts[c] = share * of.means[c + 1];
  found.shrunk.pair = pair;
  found.shrunk.spread =
      limited_spread(std::max(std::sqrt(variance) * tail_factor(degrees), std::sqrt(left)));
  return found;
}

/// Returns true if a run changes under a pair otherwise than under all pairs before.
bool is_new(std::size_t pair, const std::vector<OwnDeviation>& deviations) {
  for (std::size_t before = 0; before < pair; ++before) {
    const bool is_equal =
        std::all_of(deviations.begin(), deviations.end(), [&](const OwnDeviation& each) {
          return each.under_pair[pair] == each.under_pair[before];
        });
    if (is_equal) return false;
  }
  return true;
}

/// Multiplies or divides a factor within the limits of the schema.
double limited(double value, double least) { return std::clamp(value, least, 10.0); }

std::int64_t times_of(std::int64_t time, double factor) {
  return std::llround(static_cast<double>(time) * factor);
}

/// Returns the stack with the time for each expert and at least the natural load of a pair.
SoftwareStack with_pair(SoftwareStack s, std::size_t pair) {
  const std::int64_t time = kExpertTimes[pair / kNaturalLoads.size()];
  const double load = kNaturalLoads[pair % kNaturalLoads.size()];
  s.set_host_each_expert(s.host_each_expert() + time);
  s.set_natural_load(std::max(s.natural_load(), load));
  return s;
}

/// Returns the stack with the times that it adds to kernels and exchanges multiplied by `factor`.
SoftwareStack slowed_host(SoftwareStack s, double factor) {
  s.set_layer_gap(times_of(s.layer_gap(), factor));
  s.set_step_gap(times_of(s.step_gap(), factor));
  s.set_host_layer(times_of(s.host_layer(), factor));
  s.set_host_tensor(times_of(s.host_tensor(), factor));
  s.set_host_experts(times_of(s.host_experts(), factor));
  s.set_host_each_expert(times_of(s.host_each_expert(), factor));
  s.set_host_adapters(times_of(s.host_adapters(), factor));
  s.set_host_stages(times_of(s.host_stages(), factor));
  s.set_transfer_gap(times_of(s.transfer_gap(), factor));
  s.set_transfer_stall(times_of(s.transfer_stall(), factor));
  s.set_group_gap(times_of(s.group_gap(), factor));
  s.set_host_update(times_of(s.host_update(), factor));
  return s;
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
  return slowed_host(std::move(s), factor);
}

/// Returns the stack with the times of each part multiplied by exp(parts).
SoftwareStack slowed_parts(SoftwareStack s, const PartShares& parts) {
  const double products = std::exp(parts[kProducts]), attention = std::exp(parts[kAttention]),
               memory = std::exp(parts[kMemoryBound]), exchange = std::exp(parts[kExchanges]);
  s.set_gemm(limited(s.gemm() / products, 0.1));
  s.set_gemm_low(limited(s.gemm_low() / products, 0.1));
  s.set_attention(limited(s.attention() / attention, 0.1));
  s.set_memory_bytes(limited(s.memory_bytes() * memory, 0.01));
  s.set_update_bytes(std::clamp(s.update_bytes() * memory, 0.1, 100.0));
  s.set_loss_bytes(limited(s.loss_bytes() * memory, 0.01));
  s.set_nvlink(limited(s.nvlink() / exchange, 0.1));
  s.set_network(limited(s.network() / exchange, 0.01));
  s.set_latency(std::clamp(s.latency() * exchange, 0.1, 100.0));
  const double flash_1 = std::exp(parts[kFlash1]), flash_2 = std::exp(parts[kFlash2]);
  s.set_attention_flash_1(limited(s.attention_flash_1() / flash_1, 0.1));
  s.set_attention_flash_2(limited(s.attention_flash_2() / flash_2, 0.1));
  return slowed_host(std::move(s), std::exp(parts[kHost]));
}

/// Returns the logarithm of the time of a step under a stack.
double logarithm_under(const SoftwareStack& stack, Job job, const Cluster& cluster) {
  *job.mutable_software() = stack;
  return std::log(estimate_step(job, cluster).step_s);
}

/// Returns a deviation with its shares and its changes under each pair. Pairs are priced only where
/// the run's time changes with them.
OwnDeviation deviation_on(double value, const Job& job, const Cluster& cluster,
                          const SoftwareStack& stack) {
  OwnDeviation of{.value = value, .shares = {}, .under_pair = {}};
  const double before = logarithm_under(stack, job, cluster);
  if (!std::isfinite(before)) return of;
  for (std::size_t part = 0; part < kFlash1; ++part) {
    PartShares slower{};
    slower[part] = kShareStep;
    const double after = logarithm_under(slowed_parts(stack, slower), job, cluster);
    of.shares[part] = (after - before) / kShareStep;
  }
  const Attention kernels = attention_of(job);
  if (kernels == Attention::flash_1) of.shares[kFlash1] = of.shares[kAttention];
  if (kernels == Attention::flash_2) of.shares[kFlash2] = of.shares[kAttention];
  if (!job.model().has_experts()) return of;
  const bool is_natural = routing_of(job.model().experts()) == ExpertRouting::natural;
  constexpr std::size_t kLoads = kNaturalLoads.size();
  for (std::size_t pair = 1; pair < kExpertPairs; ++pair) {
    const std::size_t load = is_natural ? pair % kLoads : 0;
    const std::size_t felt = (job.compiled() ? 0 : pair - pair % kLoads) + load;
    of.under_pair[pair] = felt < pair
                              ? of.under_pair[felt]
                              : logarithm_under(with_pair(stack, pair), job, cluster) - before;
  }
  return of;
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
  /// Returns the deviations of the runs from their times under a stack.
  std::vector<OwnDeviation> deviations_from(const std::vector<double>& times,
                                            const SoftwareStack& stack) const {
    std::vector<OwnDeviation> deviations;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      deviations.push_back(deviation_on(std::log(runs_[i].measured_s / times[i]),
                                        runs_[i].run.job, clusters_[i], stack));
    }
    return deviations;
  }
  /// Returns the median standard deviation of the shipped intervals, and whether the stack was
  /// fitted on the GPUs of all runs.
  OwnPrior prior() const {
    std::vector<double> spreads;
    bool is_fitted_here = true;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Interval interval =
          interval_of(1, runs_[i].run.job, runs_[i].run.assumed.empty(), clusters_[i].gpu_model());
      spreads.push_back(std::log(interval.p90_s / interval.p10_s) / (2 * kP90));
      is_fitted_here = is_fitted_here && interval.distance.ends_with(" measured");
    }
    return {median_of(std::move(spreads)), is_fitted_here};
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

/// Returns by how much the logarithm of a run's time is short of the shift, the median of the runs.
double missing_shift(const OwnStack& own, const std::vector<OwnDeviation>& deviations) {
  std::vector<double> missing;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    const double reached = std::log(own.after_s[i] / own.before_s[i]);
    missing.push_back(own.shrunk.shift_of(deviations[i]) - reached);
  }
  return median_of(std::move(missing));
}

}  // namespace

double Shrunk::shift_of(const OwnDeviation& run) const {
  return common + run.under_pair[pair] +
         std::inner_product(run.shares.begin(), run.shares.end(), parts.begin(), 0.0);
}

std::string part_factors(const Shrunk& of) {
  const PartShares& parts = of.parts;
  std::string text =
      fmt::format("products x {:.4f}, attention x {:.4f}, memory-bound operators x {:.4f}, "
                  "exchanges x {:.4f}, host x {:.4f}",
                  std::exp(parts[kProducts]), std::exp(parts[kAttention]),
                  std::exp(parts[kMemoryBound]), std::exp(parts[kExchanges]),
                  std::exp(parts[kHost]));
  if (parts[kFlash1] != 0) text += fmt::format(", flash-1 x {:.4f}", std::exp(parts[kFlash1]));
  if (parts[kFlash2] != 0) text += fmt::format(", flash-2 x {:.4f}", std::exp(parts[kFlash2]));
  const std::int64_t time = kExpertTimes[of.pair / kNaturalLoads.size()];
  const double load = kNaturalLoads[of.pair % kNaturalLoads.size()];
  if (time > 0) text += fmt::format(", {} us of the host more for each expert", time / 1000);
  if (load > 1) text += fmt::format(", natural load at least {}", load);
  return text;
}

OwnDeviation deviation_of(double value, const PublishedRun& run, const SoftwareStack& stack) {
  return deviation_on(value, run.job, build_cluster(run.cluster, {}, "cluster"), stack);
}

Shrunk shrink(const std::vector<OwnDeviation>& runs, const OwnPrior& prior) {
  const std::vector<OwnDeviation> deviations = without_common_kernel(runs);
  const std::vector<double> values = values_of(deviations);
  if (values.size() == 1 && prior.is_fitted_here) return one_run_shrunk(values[0]);
  PairFit best = fit_under(0, deviations, prior);
  const double all = squares_of(values), count = static_cast<double>(values.size());
  if (values.size() > 1 && all / count > kWithin * kWithin) {
    for (std::size_t pair = 1; pair < kExpertPairs; ++pair) {
      if (!is_new(pair, deviations)) continue;
      PairFit fit = fit_under(pair, deviations, prior);
      if (fit.distance < best.distance) best = std::move(fit);
    }
  }
  best.shrunk.median = median_of(values);
  std::vector<double> shifts;
  for (const OwnDeviation& each : deviations) shifts.push_back(best.shrunk.shift_of(each));
  best.shrunk.shift = median_of(std::move(shifts));
  return best.shrunk;
}

OwnStack fit_own_stack(const std::vector<OwnRun>& runs, const std::string& name,
                       const SoftwareStack* basis) {
  const SoftwareStack shipped = basis != nullptr ? *basis : common_stack(runs);
  common_stack(runs);
  const PricedRuns priced(runs);
  OwnStack own;
  const OwnPrior prior = priced.prior();
  own.prior_spread = prior.spread;
  own.before_s = priced.times_under(shipped);
  const std::vector<OwnDeviation> deviations = priced.deviations_from(own.before_s, shipped);
  own.shrunk = shrink(deviations, prior);
  double common = own.shrunk.common;
  for (int round = 0; round < kRounds; ++round) {
    own.stack = slowed_stack(slowed_parts(with_pair(shipped, own.shrunk.pair), own.shrunk.parts),
                             std::exp(common));
    own.after_s = priced.times_under(own.stack);
    const double missing = missing_shift(own, deviations);
    if (std::abs(missing) < 1e-4) break;
    common += missing;
  }
  own.stack.set_name(name);
  own.stack.set_kin(runs.front().run.job.stack());
  priced.mark_measured(own.shrunk.spread, own.stack);
  own.stack.clear_source();
  own.stack.add_source(fmt::format(
      "{} measured runs (orrery calibrate --runs): times of {} x {:.4f} (beside: {}), median of "
      "measured over predicted {:.4f}",
      runs.size(), own.stack.kin(), std::exp(common), part_factors(own.shrunk),
      std::exp(own.shrunk.median)));
  return own;
}

}  // namespace orrery::estimates
