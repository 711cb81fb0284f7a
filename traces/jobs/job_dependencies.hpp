// Dependencies between the jobs of a log: a job enters the queue when the jobs that it names have
// ended. Read by traces/jobs/job_log and sim/replay. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "traces/jobs/job_trace.hpp"

namespace orrery {

/// Dependencies of the jobs of a log.
struct JobDependencies {
  /// Rows of the jobs that must end first, each once, by the row of the job that waits for them.
  std::map<std::size_t, std::vector<std::size_t>> after;
  std::uint64_t unknown = 0;  ///< number of named ids that no job of the log has
};
/// Returns the dependencies that TraceJob::after names: ids between blanks. Of several jobs with
/// one id the first counts. Ids that no job has are counted; they keep no job waiting. A job that
/// names itself waits for itself.
///
/// For example, "7 9" in row 4 gives after[4] = {rows of the jobs 7 and 9}.
JobDependencies job_dependencies(const std::vector<TraceJob>& jobs);

/// Returns the first row whose job waits, directly or through others, for its own end; nothing if
/// all jobs can end.
std::optional<std::size_t> first_circular(const JobDependencies& dependencies);

}  // namespace orrery
