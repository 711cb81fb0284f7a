// A measured machine for the commands that take one: measured now, or read from a profile. The
// live program measures, sim/machine_fit fits, and short runs with real processes say what a step
// costs beside. One thread; starts worker processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/machine.pb.h"
#include "traces/run.pb.h"

namespace orrery::cli {

/// `ranks`: the numbers of ranks whose links are measured, each at least 2. Throws what the live
/// program and the runs throw.
MachineProfile measure_machine(const std::vector<std::uint32_t>& ranks, bool quick);

/// Puts a job's ranks on the machine in place of the scenario's cluster, and its prices in place of
/// the catalogue's. Throws bad_input for a scenario without a job.
void use_machine(RunRequest& request, const MachineProfile& machine);

}  // namespace orrery::cli
