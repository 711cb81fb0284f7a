// Production job traces in the canonical form: CSV with job_id, submit_s, num_gpus, duration_s, and
// optionally vc, user, name, requested_s, recorded_start_s, priority, after, qos, gpu_kind, speeds,
// min_gpus, max_gpus, scaling, in any order and with any additional columns; gzip too. Called by
// traces/jobs/job_log. Thread-safe. Seconds of the log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "traces/jobs/label.hpp"
#include "traces/jobs/packed.hpp"

namespace orrery {

/// Job of a log. Logs have millions of jobs, so common texts are stored once, and every field is as
/// small as possible.
struct TraceJob {
  PackedText id;
  std::uint32_t gpus = 0;
  int line = 1;  ///< line in the file, from 1
  PackedSeconds submit_s = 0;
  PackedSeconds duration_s = 0;
  PackedSeconds requested_s = 0;        ///< requested time; 0: none
  PackedSeconds recorded_start_s = -1;  ///< start in the log; never shown to policies; -1: none
  Label pool;
  Label user = {}, name = {};
  std::int32_t priority = 0;            ///< higher values go first in policies that use priorities
  /// Ids, between blanks, of the jobs that must end before this job enters the queue.
  Label after = {};
  Label qos = {};    ///< quality of service (Slurm's QOS)
  Label sizes = {};  ///< text of ElasticSizes (traces/jobs/elastic_sizes); empty: `gpus` only
  Label kinds = {};  ///< text of GpuKinds (traces/jobs/gpu_kinds); empty: any kind of GPU
};
static_assert(sizeof(TraceJob) <= 76);

/// Returns the jobs in file order. Throws bad_input with file:line:column for a missing column, a
/// malformed number, a value out of range, a torn line, a file without jobs, or a file over 1 GiB
/// unpacked. Reads piece by piece; only a file with an error or with quoted fields is read into
/// memory as a whole.
std::vector<TraceJob> load_job_trace(const std::string& path);
/// Returns the jobs of a text; `path` is for messages. Throws as load_job_trace() does.
std::vector<TraceJob> parse_job_trace(const std::string& path, std::string_view text);
/// Returns the jobs as text in the canonical form.
std::string job_trace_csv(const std::vector<TraceJob>& jobs);

}  // namespace orrery
