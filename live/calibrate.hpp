// Measurements of this machine for `orrery calibrate`, in the way in which live mode uses it:
// matrix products and codecs on one thread, the optimizer's update, sums of gradients over the
// fabric. Called by `orrery-live calibrate`; the fit is in sim/estimates/prices/machine_fit. Starts
// threads of its own; takes seconds to a minute.
#pragma once

#include <cstdint>
#include <vector>

#include "topologies/machine.pb.h"

namespace orrery::live {

/// Options of a measurement.
struct MeasureOptions {
  bool quick = false;                    ///< fewer sizes and repetitions
  std::vector<std::uint32_t> ranks = {2, 4};  ///< numbers of ranks in the sums, each at least 2
};

/// Measures this machine. Throws an environment Error if the fabric cannot be set up.
MachineMeasurements measure_machine(const MeasureOptions& options);

}  // namespace orrery::live
