// Measured machine in place of a cluster (topologies/machine.proto): loading from its file, and
// conversion to the topology of a live run's ranks: one GPU (a core), one NIC and one node each,
// connected by a non-blocking switch. Called by the command line. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>

#include "topologies/machine.pb.h"

namespace orrery {

/// Returns the profile in a file, with defaults. Throws bad_input with the place in the file.
MachineProfile load_machine(const std::string& path);

/// Returns the measurement for `ranks` ranks, or for the nearest measured number (of equally near
/// numbers, the first in the file), as a reference into `machine`. Throws an internal Error if the
/// profile has no links.
const RankLinks& links_among(const MachineProfile& machine, std::uint32_t ranks);

/// Returns a resolved topology of `ranks` such ranks, with the links of links_among(). Throws as
/// links_among().
Topology machine_topology(const MachineProfile& machine, std::uint32_t ranks);

}  // namespace orrery
