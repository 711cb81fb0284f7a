// Production job traces in the canonical form: CSV with job_id, submit_s, num_gpus, duration_s, and
// perhaps vc, user, name, requested_s, recorded_start_s, priority, in any order, more columns
// allowed, gzip too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "traces/jobs/label.hpp"
#include "traces/jobs/packed.hpp"

namespace orrery {

/// Logs have millions of them: what many have in common is kept once, and nothing takes more than
/// it needs.
struct TraceJob {
  PackedText id;
  PackedSeconds submit_s = 0;
  std::uint32_t gpus = 0;
  int line = 1;  ///< of the file, from 1
  PackedSeconds duration_s = 0;
  PackedSeconds requested_s = 0;        ///< what its user asked for; 0: nothing
  PackedSeconds recorded_start_s = -1;  ///< in the log; never shown to policies; -1: none
  Label pool;
  Label user = {}, name = {};
  std::int32_t priority = 0;            ///< higher goes first, where a policy looks at it
};
static_assert(sizeof(TraceJob) <= 64);

/// In file order. Throws bad_input with file:line:column: a missing column, a number that is
/// none, out of range, a torn line, a file over 1 GiB unpacked.
/// The text is not kept as a whole, but where something is wrong with it or fields are quoted.
std::vector<TraceJob> load_job_trace(const std::string& path);
/// The same of a text that has been read; `path` is for messages.
std::vector<TraceJob> parse_job_trace(const std::string& path, std::string_view text);
/// In the same form.
std::string job_trace_csv(const std::vector<TraceJob>& jobs);

}  // namespace orrery
