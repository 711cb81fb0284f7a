// Failures as rates become faults at instants: kinds of failures (by hand, of a shipped profile, or
// recorded somewhere) are drawn by the run's seed, once, before the run. So both worlds read them
// through the one fault script, and a run is its scenario and its seed. Pure functions; safe from
// any thread. Seconds; the policy clock in nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// The shipped profiles.
const FailureCatalog& failure_catalog();
std::vector<std::string> failure_profile_names();

/// The profile's kinds and those beside it. Throws bad_input for a profile that does not ship.
std::vector<FailureKind> failure_kinds(const Failures& failures);

/// Mean time between failures of one such part, seconds; infinite if none was counted.
double part_mtbf(const FailureKind& kind);
/// How many such parts `nodes` nodes of `cluster` have; racks and rows begun count whole.
std::uint32_t parts_of_kind(const FailureKind& kind, const Failures& failures,
                            const Cluster& cluster);
/// Failures per second of a job on `nodes` nodes, its own and its hardware's: what does not
/// interrupt it (slow parts, and parts of the fabric) is left out.
double interruption_rate(const std::vector<FailureKind>& kinds, double nodes,
                         double gpus_per_node = 8);

/// What is wrong with `failures` beyond the schema; the paths are below "failures".
struct FailureProblem {
  std::string path, message;
};
std::vector<FailureProblem> failure_problems(const Failures& failures, const Cluster& cluster);

/// The faults of `scenario.failures()`, by time: drawn from its kinds, and those of its trace, a
/// file below `folder`. Throws bad_input: more than a million, or a trace that cannot be read.
std::vector<Fault> drawn_faults(const Scenario& scenario, const Cluster& cluster,
                                const std::string& folder);
/// The same scenario with its failures as faults behind its own.
Scenario with_drawn_faults(Scenario scenario, const Cluster& cluster, const std::string& folder);

/// A trace of failures (Failures.trace in scenario.proto). `path` is for messages.
std::vector<Fault> read_failure_trace(const std::string& path, std::string_view text);

}  // namespace orrery
