// Workloads of Batsim: a JSON object with the number of resources (nb_res), the jobs and their
// profiles. Used by traces/jobs/job_log and `orrery export batsim`. One thread. Seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/jobs/job_trace.hpp"
#include "traces/jobs/json_items.hpp"

namespace orrery {

/// Returns true if a JSON text that begins with a brace has the keys of a workload of Batsim.
bool is_batsim_workload(std::string_view text);

/// Calls `each` for every job of a workload, in the order of the file. A resource is a GPU. The
/// duration of a job is the delay of its profile, at most the walltime; the walltime is the
/// requested time. The keys that write_batsim_workload() adds are read too. Impossible values are
/// in JobEntry::problem. Throws bad_input with the place if the text is not a JSON object, or for a
/// job whose profile is not a delay: its time depends on the platform that Batsim simulates.
///
/// For example, {"nb_res": 8, "jobs": [{"id": 1, "subtime": 5, "res": 2, "profile": "a"}],
/// "profiles": {"a": {"type": "delay", "delay": 60}}} is a job of two GPUs for a minute.
void read_batsim_workload(const std::string& path, std::string_view text,
                          const std::function<void(const JobEntry&)>& each);

/// Workload of Batsim as text, and remarks on the parts of the jobs that Batsim cannot have.
struct BatsimWorkload {
  std::string text;
  std::vector<std::string> left_out;
};

/// Returns the jobs as a workload for a machine of `resources` GPUs: each job has a number from 0
/// as its id, since schedulers of pybatsim read the id as a number, and a delay as its profile. The
/// canonical columns that Batsim does not know (job_id, user, vc, name, qos, priority) are further
/// keys of the job, which Batsim passes on to the scheduler.
BatsimWorkload write_batsim_workload(const std::vector<TraceJob>& jobs, std::uint32_t resources);

}  // namespace orrery
