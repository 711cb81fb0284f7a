// Predictions of published training runs: row in, row out. A time with its intervals and the memory
// per GPU where a run can be priced, a reason where not. Called by `orrery predict`. Thread-safe:
// rows do not know of each other.
#pragma once

#include <string>

#include "traces/published/published_run.hpp"

namespace orrery::estimates {

/// What the table's row becomes.
struct Prediction {
  std::string id;
  bool supported = false;
  bool fits = true;            ///< in the GPU's memory; if not, it is priced all the same
  std::string distance;        ///< class of what it rests on: "fitted complete dense measured"
  double iter_time_s = 0;
  double p10_s = 0, p90_s = 0, p2_5_s = 0, p97_5_s = 0;  ///< of the measured time
  double memory_bytes = 0;  ///< of tensors, on the fullest GPU: what an allocator calls its peak
  std::string reason;  ///< what was assumed, or why not; one line
};

/// Never throws because of the row: what is odd about it is the reason.
Prediction predict_run(const std::string& id, const PublishedRun& run);

/// "ok", "out-of-memory" or "unsupported".
const char* status_of(const Prediction& prediction);

/// The table that predictions are written as: its header, and one row.
std::string prediction_header();
std::string prediction_row(const Prediction& prediction);

}  // namespace orrery::estimates
