// Incidents of a job in the output of Slurm's sacct: the job's runs in a row, each with the state
// in which it ended, and the time until the next one. Used by traces/failures/incident_log.
// Thread-safe. For example, the rows "17|NODE_FAIL|...T09:00:00|...T10:00:00" and
// "17|RUNNING|...T10:20:00|Unknown" give one incident of a node with a downtime of 1,200 s.
#pragma once

#include <string>
#include <string_view>

#include "traces/failures/incident_log.hpp"

namespace orrery {

/// Returns the incidents of one job, whose rows have one JobName and User, or one JobID in a log
/// without names. Every end of a run that another run follows is an incident: of a node for
/// NODE_FAIL and BOOT_FAIL, with the node of the column FailedNode, else of the job; its cause is
/// the state. Steps of jobs (JobID with a dot) are left out. The log lasts from the first start to
/// the last end. Throws bad_input with the place for a missing column, an impossible time, and a
/// log without the job.
IncidentLog read_sacct_incidents(const std::string& path, std::string_view text,
                                 const IncidentOptions& options);

}  // namespace orrery
