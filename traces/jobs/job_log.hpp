// Other tools' job logs, told apart by what their files begin with and read into jobs of the
// canonical form (traces/jobs/job_trace). Called by `orrery import jobs`, `orrery jobs` and Python.
// One thread.
//
// A file that is not what its beginning promises (cut short, broken text, a number that no log has)
// is refused with its place. A row that says something impossible is counted, with its line and the
// reason, and left out; `strict` refuses it instead. Rows that are no job of GPUs that ran are
// passed over and counted. Our own form is always read strictly.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"

namespace orrery {

struct JobLog {
  std::vector<TraceJob> jobs;  ///< by submission, the first at 0; ties in the order of the file
  TraceQuality quality;
};

struct JobLogOptions {
  bool strict = false;
  /// Gavel's traces say steps, not seconds: its throughputs (JSON, gzip too), and the GPU to take.
  std::string throughputs = {}, gpu = "v100";
};

/// Throws bad_input with file:line:column.
JobLog load_job_log(const std::string& path, const JobLogOptions& options = {});
/// The same of a text that has been read; `path` is for messages.
JobLog parse_job_log(const std::string& path, std::string_view text,
                     const JobLogOptions& options = {});

/// Names of users, virtual clusters, jobs and ids become numbers in the order of their coming, so
/// that a log can be shown to others: user-1, vc-1, name-1. Times and sizes stay.
void anonymize(std::vector<TraceJob>& jobs);

/// The names of the formats, for messages.
std::vector<std::string> job_log_formats();

}  // namespace orrery
