// Fit of a software stack to measured runs of one's own, by shrinkage towards the shipped stack of
// their framework. Called by `orrery calibrate --runs`. Thread-safe: no state between calls.
// Seconds.
//
// Model (parametric empirical Bayes, Morris 1983, doi:10.1080/01621459.1983.10477920): the
// logarithm of measured over predicted time of run i is r_i = d + sum_c s_ic u_c + e_i. The
// deviation d of the software and its cluster from the shipped stack is normal with variance T, the
// deviation u_c of part c of the stack (products, attention, memory-bound operators, exchanges,
// host, and the older kernels of attention beside attention) with variance 0.6^2, the deviation e_i
// of a run with variance S; s_ic is the share of part c in the step. Kernels of attention are told
// apart if the runs use several: u_c is 0 for a kernel that all of them use. T + S is the variance
// of the shipped interval (T at least 0.2^2), S = 0.13^2. Of K runs
// follow the posterior means of d and u, the leverages h_i, and
//
//     S' = (2 S + sum (r_i - fit_i)^2) / (2 + K - sum h_i)
//     variance of another run like these: V = S' (1 + mean h_i)
//
// (Smyth 2004, doi:10.2202/1544-6115.1027).
//
// Several runs: d and u are multiplied by the share of the fits, from 0 to 1, that serves runs
// which were left out best: the one with the least sum of the absolute distances of each run from
// this share of a fit to the other ones (stacking, Breiman 1996, doi:10.1007/BF00117832). d = u = 0
// if the mean of r_i^2 is at most S.
//
// Experts: without CUDA graphs of the whole iteration the host launches the kernels of each expert,
// about ten microseconds each, and natural routing loads the ranks unevenly. A stack that was not
// fitted has no times for these, so no factor moves them. Several runs are therefore fitted once
// for each pair of a time of kExpertTimes that is added to the stack's and a load of kNaturalLoads
// that the stack has at least: r_i less the change g_i of the logarithm of the predicted time. The
// pair with the least sum of the absolute distances of runs that were left out counts, the first
// one if the mean of r_i^2 is at most S. g_i is 0 for a run without experts; it does not change
// with the time for one that is compiled, and with the load for one without natural routing.
//
// The spread is the larger one of sqrt(V) t(90%) / 1.28, with 2 + K - sum h_i degrees of freedom,
// and the root mean square of these distances.
//
// One run of a software whose shipped stack was fitted on the run's GPUs: most such software does
// not deviate, and runs have outliers. So d is 0 with probability 0.8, else normal with variance
// 0.5^2, u is 0, and e / 0.2 has Student's t distribution with 3 degrees of freedom: the values of
// the greatest likelihood for the 37 open families of such runs. The shift is the posterior median
// of d (Johnstone and Silverman 2004, doi:10.1214/009053604000000030), the spread that of another
// run under this posterior.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/published/published_run.hpp"
#include "traces/scenario.pb.h"

namespace orrery::estimates {

/// Measured run.
struct OwnRun {
  std::string id;
  PublishedRun run;  ///< not refused
  double measured_s = 0;
};

/// Parts of a software stack whose times a fit tells apart. The kernels are those of attention of
/// the first and the second generation (Job.attention): their times are attention's, times a factor
/// of their own.
enum StackPart : std::uint8_t {
  kProducts,
  kAttention,
  kMemoryBound,
  kExchanges,
  kHost,
  kFlash1,
  kFlash2,
};
inline constexpr std::size_t kStackParts = kFlash2 + 1;
/// Change of the logarithm of a step time by that of the times of each part. For example, 0.5 for
/// products: if these take 1% longer, the step takes 0.5% longer.
using PartShares = std::array<double, kStackParts>;

/// Times of the host in nanoseconds for each expert of a rank and pass that a fit tries
/// (SoftwareStack.host_each_expert), beside those of the stack, and least loads of the busiest rank
/// under natural routing (natural_load).
inline constexpr std::array<std::int64_t, 5> kExpertTimes{0, 100'000, 200'000, 400'000, 800'000};
inline constexpr std::array<double, 4> kNaturalLoads{1, 1.5, 2, 4};
/// Pairs of a time and a load; pair 0 leaves the stack as it is.
inline constexpr std::size_t kExpertPairs = kExpertTimes.size() * kNaturalLoads.size();

/// Deviation of one run: the logarithm of its measured over its predicted time.
struct OwnDeviation {
  double value = 0;
  PartShares shares = {};
  /// Change of the logarithm of the predicted time under each pair.
  std::array<double, kExpertPairs> under_pair = {};
};

/// Deviation of own runs from a stack: quantities of the logarithm of measured over predicted time.
struct Shrunk {
  double median = 0;      ///< median of the deviations
  double shift = 0;       ///< median of shift_of() over the runs
  double common = 0;      ///< posterior of d
  PartShares parts = {};  ///< posterior of u
  std::size_t pair = 0;   ///< place of a time for each expert and a natural load
  double spread = 0;

  /// Returns the shift of a run; its deviation does not count.
  double shift_of(const OwnDeviation& run) const;
};

/// Shipped knowledge of a software before its own runs.
struct OwnPrior {
  double spread = 0;            ///< standard deviation of the shipped interval, above 0
  bool is_fitted_here = false;  ///< the shipped stack was fitted on the GPUs of the runs
};

/// Fitted stack and its support.
struct OwnStack {
  SoftwareStack stack;
  Shrunk shrunk;
  double prior_spread = 0;                ///< standard deviation of the shipped interval
  std::vector<double> before_s, after_s;  ///< prediction of each run by the shipped stack and this
};

/// Returns the posterior of at least one deviation. For example, five deviations of 0.4 under a
/// prior spread of 0.2 give a shift near 0.4.
Shrunk shrink(const std::vector<OwnDeviation>& runs, const OwnPrior& prior);

/// Returns the factors exp(parts) in words: "products x 1.0500, attention x 1.2000, ...". Kernels
/// of attention are named if they have a factor, the pair if it is not the first.
std::string part_factors(const Shrunk& of);

/// Returns the deviation `value` with the shares of the parts of `stack` in the step of a run, and
/// the changes under each pair; zeros for a run without a finite time. Throws bad_input as
/// estimate_step().
OwnDeviation deviation_of(double value, const PublishedRun& run, const SoftwareStack& stack);

/// Returns the stack `name` for runs of one framework: all times of the framework's stack, or of
/// `basis` if it is not null, with the pair, times exp(common), and those of each part times
/// exp(parts), with the median shift of the runs. Its interval counts on the GPUs and the classes
/// of the runs only. Throws bad_input for no run, for runs of several stacks and for a run that
/// cannot be priced.
OwnStack fit_own_stack(const std::vector<OwnRun>& runs, const std::string& name,
                       const SoftwareStack* basis = nullptr);

}  // namespace orrery::estimates
