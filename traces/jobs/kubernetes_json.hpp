// Jobs in the output of `kubectl get ... -o json`: Kueue's workloads, batch jobs and pods, alone or
// mixed. Used by traces/jobs/job_log. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "traces/jobs/json_items.hpp"

namespace orrery {

/// Calls `each` for every object with a kind in a list. The GPUs of an object are the limits (else
/// the requests) of its containers under names that end in "/gpu", times its pods. The submission
/// is the creation of the object. The start is Kueue's admission for a workload, else startTime.
/// The end is the finish of a workload, the completion or failure of a batch job, or the end of a
/// pod's last container. Objects of other kinds count as jobs that never ran; impossible values are
/// in JobEntry::problem. Throws bad_input with the place if the text is not a JSON object.
void read_kubernetes_json(const std::string& path, std::string_view text,
                          const std::function<void(const JobEntry&)>& each);

}  // namespace orrery
