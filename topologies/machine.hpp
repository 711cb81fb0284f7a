// A measured machine in place of a cluster (topologies/machine.proto): loaded from its file, and as
// the topology on which the ranks of a live run stand: one GPU (a core), one NIC and one node each,
// joined by a switch that never blocks. Called by the command line. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>

#include "topologies/machine.pb.h"

namespace orrery {

/// Throws bad_input with the place in the file.
MachineProfile load_machine(const std::string& path);

/// The entry for so many ranks, or for the nearest number that was measured.
const RankLinks& links_among(const MachineProfile& machine, std::uint32_t ranks);

/// A resolved topology of `ranks` such ranks.
Topology machine_topology(const MachineProfile& machine, std::uint32_t ranks);

}  // namespace orrery
