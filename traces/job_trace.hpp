// Production job traces in the canonical form: CSV with job_id, submit_s, num_gpus, duration_s, vc
// in any order, more columns allowed, gzip too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

struct TraceJob {
  std::string id;
  std::int64_t submit_s = 0;
  std::uint32_t gpus = 0;
  std::int64_t duration_s = 0;
  std::string pool;
  int line = 1;  ///< of the file, from 1
};

/// In file order. Throws bad_input with file:line:column: a missing column, a number that is
/// none, out of range, a torn line, a file over 1 GiB unpacked.
std::vector<TraceJob> load_job_trace(const std::string& path);

}  // namespace orrery
