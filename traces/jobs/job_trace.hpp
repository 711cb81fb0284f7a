// Production job traces in the canonical form: CSV with job_id, submit_s, num_gpus (below 1: a part
// of a GPU), duration_s, and optionally vc, user, name, requested_s, recorded_start_s, priority,
// after, qos, gpu_kind, speeds, min_gpus, max_gpus, scaling, in any order and with any additional
// columns; gzip too. Called by traces/jobs/job_log. Thread-safe. Seconds of the log.
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
  /// Thousandths of a GPU, 1 to 999, of a job that asks for a part of one; then `gpus` is 1. 0: the
  /// job asks for whole GPUs.
  std::uint16_t milli = 0;

  /// Returns the number of GPUs that the job asks for, below 1 for a part of a GPU.
  double gpu_count() const { return milli == 0 ? gpus : milli / 1000.0; }
  /// Returns the number of slices that the job takes of GPUs with `per_gpu` slices each: a part is
  /// rounded up. For example, 0.46 GPUs are 4 of 7 slices.
  std::uint32_t slices(std::uint32_t per_gpu) const {
    return milli == 0 ? gpus * per_gpu : (milli * per_gpu + 999) / 1000;
  }
};
static_assert(sizeof(TraceJob) <= 80);

/// Returns the smallest number of slices of a GPU with which no part of a GPU that a job asks for
/// is rounded up; 1 if all jobs ask for whole GPUs.
std::uint32_t slices_for_parts(const std::vector<TraceJob>& jobs);

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
