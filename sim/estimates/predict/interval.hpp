// Prediction intervals of step times. Called by sim/estimates/predict/prediction and
// sim/estimates/predict/layouts. Thread-safe. Seconds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/schema/names.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::estimates {

/// Support of a prediction by fitted runs. unknown: there is no prediction; measured: runs of this
/// class under this stack on this GPU were fitted; between: other runs of the stack and of the GPU
/// were; transferred: the stack or the GPU has no fitted runs, and the prediction takes the factors
/// of a relative.
enum class PredictionState : std::uint8_t { unknown, measured, between, transferred };
constexpr std::array<std::string_view, 4> names_of(PredictionState) {
  return {"", "measured", "between", "transferred"};
}

/// Prediction interval of a step time. The interval depends on the basis of the prediction, called
/// its distance: a fitted software stack or not, a complete run description or not, experts or not,
/// a measured GPU or not. The width of each distance class comes from the errors of rows of that
/// class that no fit had seen, times factors of the stack, which come from the errors of its rows
/// in all classes (traces/catalog/stacks.yaml, docs/accuracy.md).
struct Interval {
  /// Class of the prediction's basis, for example "fitted complete dense measured".
  std::string distance;
  PredictionState state{};
  double p10_s = 0, p90_s = 0, p2_5_s = 0, p97_5_s = 0;  ///< quantiles of the measured time
};

/// Returns the interval around a predicted step time. `complete`: no value that a time depends on
/// had to be assumed. For example, a class with residuals r gives step_s x exp(-r) to step_s x
/// exp(r).
Interval interval_of(double step_s, const Job& job, bool complete, const GpuModel& gpu);

/// Returns the reason why --measured-only refuses a prediction of this state; empty unless the
/// prediction is transferred.
std::string transfer_refusal(PredictionState state, const std::string& basis);

}  // namespace orrery::estimates
