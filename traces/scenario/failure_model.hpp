// Kinds of failures, described by hand or from a shipped profile, with their rates, and failures
// that were recorded. FailureStream draws faults from the kinds; both worlds read the faults
// through the fault script, so a run depends on its scenario and its seed alone. Pure functions;
// thread-safe. Seconds; the policy clock in nanoseconds. For example, 1,000 nodes with a mean time
// between failures of 1,000 hours give one failure an hour on average.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "topologies/cluster.hpp"
#include "topologies/part.hpp"
#include "traces/scenario.pb.h"
#include "traces/scenario/failing_part.hpp"

namespace orrery {

/// Returns the failing part of a kind. Throws as named().
inline FailingPart failing_part(const FailureKind& kind) { return named<FailingPart>(kind.part()); }

/// Returns the shipped profiles.
const FailureCatalog& failure_catalog();
/// Returns the names of the shipped profiles.
std::vector<std::string> failure_profile_names();

/// Returns the profile's kinds and the additional ones. Throws bad_input for an unknown profile.
std::vector<FailureKind> failure_kinds(const Failures& failures);

/// Returns the failures with the same kinds in the same order, those that are not `kept` with a
/// rate of 0: the others are drawn as before. Throws as failure_kinds().
Failures only_kinds(const Failures& failures, const std::function<bool(const FailureKind&)>& kept);
/// Returns only_kinds() without the failures of the job.
Failures without_job_kinds(const Failures& failures);
/// Returns a fault with the kind's cause and effect and without times, on this part, rank of the
/// job, or, for racks and rows, node.
Fault fault_of_kind(const FailureKind& kind, std::uint32_t target);

/// Returns true if the kind's failures hit the job.
bool is_of_job(const FailureKind& kind);
/// Returns true if the kind's failures hit all nodes of a rack or row at once.
bool is_of_nodes(const FailureKind& kind);
/// Returns the kind of part that fails; nothing for job, rack and row.
std::optional<PartKind> part_kind(const FailureKind& kind);
/// Returns the number of nodes in a rack or row; call if is_of_nodes(kind).
std::uint32_t nodes_of_part(const FailureKind& kind, const Failures& failures);
/// Sets the target of a fault to a part of the cluster.
void set_target(Fault& fault, PartKind kind, std::uint32_t index);
/// Returns the instant of a fault on the policy clock, from 1 ns to 9e9 s.
Nanos fault_time(double seconds);

/// Returns the mean time between failures of one part in seconds, without failures.scale; infinite
/// if the kind has a count of 0.
double part_mtbf(const FailureKind& kind);
/// Returns the number of parts of this kind in `cluster`; incomplete racks and rows count as whole
/// ones. Returns 1 for failures of the job itself. The kind's part must be a known one.
std::uint32_t parts_of_kind(const FailureKind& kind, const Failures& failures,
                            const Cluster& cluster);
/// Returns the failures per second of a job on `nodes` nodes, its own and its hardware's, without
/// failures.scale, kinds that do not interrupt it (slow parts, and parts of the fabric) and racks
/// and rows.
double interruption_rate(const std::vector<FailureKind>& kinds, double nodes,
                         double gpus_per_node = 8);

/// Violated condition of `failures` beyond the schema; the path is below "failures".
struct FailureProblem {
  std::string path, message;
};
/// Returns all violated conditions.
std::vector<FailureProblem> failure_problems(const Failures& failures, const Cluster& cluster);

/// Returns the scenario with the faults of failures.trace, a file below `folder`, behind its own
/// faults; unchanged without a trace. Throws bad_input for an unreadable or invalid trace and for a
/// rank that the job lacks. Does not check the indices of parts.
Scenario with_recorded_faults(Scenario scenario, const std::string& folder);

/// Returns the faults of a trace of failures (Failures.trace in scenario.proto), by time. `path` is
/// for messages. Faults of ranks have no end: their lasts_s is ignored. The columns detection_s,
/// restart_s and replacement_s may be absent. Throws bad_input with the place of an invalid field,
/// for a missing column and for an empty text.
std::vector<Fault> read_failure_trace(const std::string& path, std::string_view text);

}  // namespace orrery
