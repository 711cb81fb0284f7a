// What this machine can do, measured for `orrery calibrate` the way live mode uses it: matrix
// products and codecs on one thread, the optimizer's update, sums of gradients over the fabric.
// Called by `orrery-live calibrate`, which fits nothing: see sim/estimates/prices/machine_fit.
// Starts threads of its own; seconds to a minute.
#pragma once

#include <cstdint>
#include <vector>

#include "topologies/machine.pb.h"

namespace orrery::live {

struct MeasureOptions {
  bool quick = false;                    ///< fewer sizes and repetitions
  std::vector<std::uint32_t> ranks = {2, 4};  ///< of the sums
};

/// Throws an environment Error where the fabric cannot be set up.
MachineMeasurements measure_machine(const MeasureOptions& options);

}  // namespace orrery::live
