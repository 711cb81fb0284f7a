// Job log of Microsoft's Philly clusters (cluster_job_log): a JSON array of jobs with attempts,
// each with its machines and GPUs. Read job by job, so that a gigabyte needs no gigabytes of
// memory. Used by traces/jobs/job_log. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "traces/jobs/json_items.hpp"

namespace orrery {

/// Calls `each` for every job. Attempts after the first are retries: the job has the GPUs of its
/// first attempt with GPUs, and the duration of all such attempts together. Impossible values are
/// in JobEntry::problem. Throws bad_input with the place if the text is not a JSON array.
void read_philly_json(const std::string& path, std::string_view text,
                      const std::function<void(const JobEntry&)>& each);

}  // namespace orrery
