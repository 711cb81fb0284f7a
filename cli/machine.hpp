// A measured machine for the commands that take one: measured now, or read from a profile. The
// live program measures, sim/estimates/prices/machine_fit fits, and short runs with real processes
// say what a step costs beside. One thread; starts worker processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/machine.pb.h"
#include "traces/run.pb.h"

namespace orrery::cli {

/// Of a quiet machine it is a few hundredths.
inline constexpr double kMostProductError = 0.15;

struct MeasuredMachine {
  MachineProfile profile;
  double product_error = 0;  ///< as in sim/estimates/prices/machine_fit
};

/// `ranks`: the numbers of ranks whose links are measured, each at least 2. Measures again, twice
/// at most, while the fit is off by more than `tolerance`; if it stays so, without links. Throws
/// what the live program and the runs throw.
MeasuredMachine measure_machine(const std::vector<std::uint32_t>& ranks, bool quick,
                                double tolerance = kMostProductError);

/// "the fitted prices of products are off by 43% on average"
std::string describe_error(const MeasuredMachine& measured);

/// Puts a job's ranks on the machine in place of the scenario's cluster, and its prices in place of
/// the catalogue's. Throws bad_input for a scenario without a job.
void use_machine(RunRequest& request, const MachineProfile& machine);

}  // namespace orrery::cli
