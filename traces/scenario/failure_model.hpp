// Conversion of failure rates to faults at instants: kinds of failures (described by hand, from a
// shipped profile, or recorded) are drawn with the run's seed, once, before the run. Both worlds
// read the faults through the fault script, so a run depends on its scenario and its seed alone.
// Pure functions; thread-safe. Seconds; the policy clock in nanoseconds. For example, 1,000 nodes
// with a mean time between failures of 1,000 hours give one failure an hour on average.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the shipped profiles.
const FailureCatalog& failure_catalog();
/// Returns the names of the shipped profiles.
std::vector<std::string> failure_profile_names();

/// Returns the profile's kinds and the additional ones. Throws bad_input for an unknown profile.
std::vector<FailureKind> failure_kinds(const Failures& failures);

/// Returns the mean time between failures of one part in seconds; infinite if none was counted.
double part_mtbf(const FailureKind& kind);
/// Returns the number of parts of this kind in `cluster`; incomplete racks and rows count as whole
/// ones. Returns 1 for failures of the job itself.
std::uint32_t parts_of_kind(const FailureKind& kind, const Failures& failures,
                            const Cluster& cluster);
/// Returns the failures per second of a job on `nodes` nodes, its own and its hardware's, without
/// kinds that do not interrupt it (slow parts, and parts of the fabric) and without racks and rows.
double interruption_rate(const std::vector<FailureKind>& kinds, double nodes,
                         double gpus_per_node = 8);

/// Violated condition of `failures` beyond the schema; the path is below "failures".
struct FailureProblem {
  std::string path, message;
};
/// Returns all violated conditions.
std::vector<FailureProblem> failure_problems(const Failures& failures, const Cluster& cluster);

/// Returns the faults of `scenario.failures()`: those drawn from its kinds by time, then those of
/// its trace, a file below `folder`, by time; empty without failures. Throws bad_input if more than
/// a million draws are expected, for an unknown profile, an unreadable trace, or a trace with a
/// rank that the job lacks.
std::vector<Fault> drawn_faults(const Scenario& scenario, const Cluster& cluster,
                                const std::string& folder);
/// Returns the scenario with its failures as faults behind its own faults. The failures stay in the
/// scenario, so that a second call appends the faults again. Throws as drawn_faults() does.
Scenario with_drawn_faults(Scenario scenario, const Cluster& cluster, const std::string& folder);

/// Returns the faults of a trace of failures (Failures.trace in scenario.proto), by time. `path` is
/// for messages. Throws bad_input with the place of an invalid field.
std::vector<Fault> read_failure_trace(const std::string& path, std::string_view text);

}  // namespace orrery
