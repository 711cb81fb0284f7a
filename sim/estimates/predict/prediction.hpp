// Predictions of published training runs: row in, row out. Called by `orrery predict`. Thread-safe:
// rows are independent.
#pragma once

#include <string>

#include "sim/estimates/predict/interval.hpp"
#include "sim/estimates/prices/machine_costs.hpp"
#include "traces/published/published_run.hpp"

namespace orrery::estimates {

/// Prediction of one run: a time with its intervals and the memory per GPU if the run can be
/// priced, else a reason.
struct Prediction {
  std::string id;
  bool supported = false;
  /// True if the run fits the GPU's memory; a run that does not fit is priced all the same.
  bool fits = true;
  /// Class of the prediction's basis, for example "fitted complete dense measured".
  std::string distance;
  PredictionState state{};
  double iter_time_s = 0;
  double p10_s = 0, p90_s = 0, p2_5_s = 0, p97_5_s = 0;  ///< quantiles of the measured time
  double memory_bytes = 0;  ///< tensor bytes on the fullest GPU: the peak that an allocator reports
  /// Bytes that the process holds on the fullest GPU: tensors, memory that the allocator keeps, and
  /// memory of driver and libraries; with the quantiles of measured reserves.
  double reserved_bytes = 0, reserved_p10 = 0, reserved_p90 = 0;
  std::string reason;       ///< assumptions, or the reason against a prediction; one line
};

/// Returns the prediction of one run. An Error of the row, or its refusal, does not throw: the
/// prediction is then not supported, and the message is its reason.
/// `measured_only`: a prediction that is transferred is not supported either. Values of `machine`
/// replace the catalogue's prices; a run on another GPU than its node's is not supported.
Prediction predict_run(const std::string& id, const PublishedRun& run, bool measured_only = false,
                       const MachineCosts& machine = {});

/// Returns "ok", "out-of-memory" or "unsupported".
const char* status_of(const Prediction& prediction);

/// Returns the header of the prediction table, with a line end.
std::string prediction_header();
/// Returns one row of the prediction table, with a line end.
std::string prediction_row(const Prediction& prediction);

}  // namespace orrery::estimates
