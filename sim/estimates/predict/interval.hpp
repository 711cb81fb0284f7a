// Prediction intervals of step times. Called by sim/estimates/predict/prediction and
// sim/estimates/predict/layouts. Thread-safe. Seconds.
#pragma once

#include <string>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::estimates {

/// Prediction interval of a step time. The interval depends on the basis of the prediction, called
/// its distance: a fitted software stack or not, a complete run description or not, experts or not,
/// a measured GPU or not. The width of each distance class comes from the errors of rows of that
/// class that no fit had seen (traces/catalog/stacks.yaml, docs/accuracy.md).
struct Interval {
  /// Class of the prediction's basis, for example "fitted complete dense measured".
  std::string distance;
  double p10_s = 0, p90_s = 0, p2_5_s = 0, p97_5_s = 0;  ///< quantiles of the measured time
};

/// Returns the interval around a predicted step time. `complete`: no value that a time depends on
/// had to be assumed. For example, a class with residuals r gives step_s x exp(-r) to step_s x
/// exp(r).
Interval interval_of(double step_s, const Job& job, bool complete, const GpuModel& gpu);

}  // namespace orrery::estimates
