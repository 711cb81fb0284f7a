// Fit of a software stack to measured runs of one's own, by shrinkage towards the shipped stack of
// their framework. Called by `orrery calibrate --runs`. Thread-safe: no state between calls.
// Seconds.
//
// Model (parametric empirical Bayes, Morris 1983, doi:10.1080/01621459.1983.10477920): the
// logarithm of measured over predicted time of run i is r_i = d + e_i. The deviation d of the
// software and its cluster from the shipped stack is normal with variance T, the deviation e_i of a
// run with variance S. T + S is the variance of the shipped interval (T at least 0.2^2), S =
// 0.18^2. Of K runs with the median m follow
//
//     S' = (2 S + sum (r_i - mean)^2) / (2 + K - 1)   (Smyth 2004, doi:10.2202/1544-6115.1027)
//     d' = m T / (T + S'/K),   variance of another run: V = S' + T S' / (K T + S')
//
// With two runs or more, d' = 0 if |m| < 2 sqrt(pi/2 x S'/K), two standard errors of a median: such
// runs are no evidence of a deviation.
// S' has 2 + K - 1 degrees of freedom, so that another run has a t-distribution: the spread is the
// larger one of sqrt(V) t(90%) / 1.2816, and the root mean square of the deviations of each run
// from a fit to the other ones.
#pragma once

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

/// Deviation of own runs from a stack: quantities of the logarithm of measured over predicted time.
struct Shrunk {
  double median = 0;  ///< m
  double shift = 0;   ///< d'
  double spread = 0;
};

/// Fitted stack and its support.
struct OwnStack {
  SoftwareStack stack;
  Shrunk shrunk;
  double prior_spread = 0;                ///< standard deviation of the shipped interval
  std::vector<double> before_s, after_s;  ///< prediction of each run by the shipped stack and this
};

/// Returns the posterior of at least one deviation under a prior of the standard deviation
/// `prior_spread` > 0. For example, five deviations of 0.4 under 0.2 give a shift near 0.4.
Shrunk shrink(const std::vector<double>& deviations, double prior_spread);

/// Returns the stack `name` for runs of one framework: all times of the framework's stack, or of
/// `basis` if it is not null, times exp(shift). Its interval counts on the GPUs and the classes of
/// the runs only. Throws bad_input for no run, for runs of several stacks and for a run that
/// cannot be priced.
OwnStack fit_own_stack(const std::vector<OwnRun>& runs, const std::string& name,
                       const SoftwareStack* basis = nullptr);

}  // namespace orrery::estimates
