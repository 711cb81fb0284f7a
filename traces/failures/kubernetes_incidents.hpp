// Incidents of a job in Kubernetes events (`kubectl get events -A -o json`, or what a collector
// kept of them). Used by traces/failures/incident_log. Thread-safe. For example, the warning
// XidError of a node at 10:00, PyTorchJobRestarting at 10:01 and PyTorchJobRunning at 10:20 give
// one incident of the node with a downtime of 1,200 s, 60 s of them until the detection.
#pragma once

#include <string>
#include <string_view>

#include "traces/failures/incident_log.hpp"

namespace orrery {

/// Returns the incidents of one job: an object whose kind ends in Job, or a JobSet. The job is down
/// from an event whose reason contains Restarting, Failed, Suspended, Preempted or Evicted until
/// one whose reason contains Running, Resumed or Started. The newest warning about a node in the
/// ten minutes before is the cause, else one about a pod, else the event itself; the incident
/// begins with the warning. NodeReady ends the outage of a node. Throws bad_input with the place
/// for a text that is not a list of events, an event without a time, and a log without the job.
IncidentLog read_kubernetes_incidents(const std::string& path, std::string_view text,
                                      const IncidentOptions& options);

}  // namespace orrery
