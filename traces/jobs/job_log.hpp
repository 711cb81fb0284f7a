// Job logs of other tools, recognised by their first lines and converted to the canonical form
// (traces/jobs/job_trace). Called by `orrery import jobs`, `orrery jobs` and Python. One thread.
//
// A file that contradicts its format (truncated, broken text, an impossibly large number) is
// refused with its place. A row with an impossible value is rejected: the row is left out and
// counted, with its line and the reason, as is a row of sacct whose values contain the separator;
// `strict` refuses the file instead. Rows of jobs without
// GPUs, and of jobs that never ran or have not ended, are skipped and counted. The canonical form
// is always read strictly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"

namespace orrery {

/// Imported job log with the counts of its rows.
struct JobLog {
  /// Jobs sorted by submission, ties in the order of the file. In other tools' logs, times begin at
  /// the first submission; the canonical form is unchanged, in file order.
  std::vector<TraceJob> jobs;
  TraceQuality quality;
  /// Time 0 in seconds since 1970; nothing for a log that counts from its own begin.
  std::optional<std::int64_t> origin_s = {};
};

/// Options of an import.
struct JobLogOptions {
  bool strict = false;  ///< true: a row with an impossible value is an error
  /// Throughputs (JSON, gzip too) for Gavel's traces, which contain steps instead of seconds, and
  /// the GPU whose column is used.
  std::string throughputs = {}, gpu = "v100";
  /// Kind of GPU, as the log names it: rows of jobs that must have another kind are skipped; empty:
  /// none is.
  std::string gpu_kind = {};
  /// Names of all columns between commas, for a log of sacct without a header; empty: the log has
  /// them.
  std::string columns = {};
  /// GPUs of each node, for a log of sacct that names nodes but no GPUs; 0: not known.
  std::uint32_t gpus_per_node = 0;
};

/// Returns the jobs of a file, gzip too. Throws bad_input with file:line:column for an invalid
/// file, an unknown format, a log without jobs, columns that do not match the log, or a trace of
/// Gavel without throughputs. The jobs of Gavel without a throughput are rejected, so that no job
/// may be left.
JobLog load_job_log(const std::string& path, const JobLogOptions& options = {});
/// Returns the jobs of a text; `path` is for messages. Throws as load_job_log() does.
JobLog parse_job_log(const std::string& path, std::string_view text,
                     const JobLogOptions& options = {});

/// Replaces the names of users, virtual clusters, jobs and QOS by user-1, vc-1, name-1, qos-1, ...
/// in order of appearance, and the ids by numbers from 0, so that a log can be shared. Times and
/// sizes stay.
void anonymize(std::vector<TraceJob>& jobs);

/// Returns the names of the formats, for messages.
std::vector<std::string> job_log_formats();

}  // namespace orrery
