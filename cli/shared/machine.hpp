// Measurement of this machine for `orrery calibrate` and `orrery compare`, and the use of a
// machine's profile in a simulated run. The live program measures, sim/estimates/prices/machine_fit
// fits, and short live runs give the control time of a step. One thread; starts worker processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/machine.pb.h"
#include "traces/run.pb.h"

namespace orrery::cli {

/// Default limit of the relative error of the fit; on an idle machine the error is a few
/// hundredths.
inline constexpr double kMostProductError = 0.15;

/// Profile of a measured machine, and the quality of its fit.
struct MeasuredMachine {
  MachineProfile profile;
  double product_error = 0;  ///< mean relative error, see machine_fit.hpp
};

/// Returns the measured machine. `ranks`: the numbers of ranks whose links are measured, each at
/// least 2. Measures again, twice at most, while the error of the fit exceeds `tolerance`, and
/// returns the best fit. If its error still exceeds `tolerance`, the latency and control time of
/// its links have not been corrected by live runs. Blocks for seconds to minutes. Throws an
/// environment Error if the live program gives no measurements, and errors of run().
MeasuredMachine measure_machine(const std::vector<std::uint32_t>& ranks, bool quick,
                                double tolerance = kMostProductError);

/// Returns the error of the fit for messages: "the fitted prices of products are off by 43% on
/// average".
std::string describe_error(const MeasuredMachine& measured);

/// Replaces the cluster of the request's scenario by the machine, with one GPU for each rank of the
/// job, and the catalogue's prices by the machine's. Throws bad_input for a scenario without a job,
/// an internal Error for a profile without links.
void use_machine(RunRequest& request, const MachineProfile& machine);

}  // namespace orrery::cli
