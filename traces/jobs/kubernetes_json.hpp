// Jobs as `kubectl get ... -o json` lists them: Kueue's workloads, batch jobs and pods, alone or
// mixed. Used by traces/jobs/job_log. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "traces/jobs/json_items.hpp"

namespace orrery {

/// Calls `each` for every object of the list. GPUs are what its containers ask for under names that
/// end in "/gpu", by its pods; it came when it was created, began when Kueue admitted it (a
/// workload) or at its startTime, and ended when it finished, failed, or its last container
/// stopped. Objects of other kinds never ran. Throws bad_input with the place of what is no JSON.
void read_kubernetes_json(const std::string& path, std::string_view text,
                          const std::function<void(const JobEntry&)>& each);

}  // namespace orrery
