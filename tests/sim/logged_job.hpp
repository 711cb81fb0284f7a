// Job of a log, for tests of replays.
#pragma once

#include <string>
#include <utility>

#include "traces/jobs/job_trace.hpp"

namespace orrery::test {

/// Seconds.
inline TraceJob logged_job(std::string id, std::int64_t submit, std::uint32_t gpus,
                           std::int64_t duration, const std::string& pool = {}) {
  return {.id = std::move(id), .gpus = gpus, .submit_s = submit, .duration_s = duration,
          .pool = pool};
}

}  // namespace orrery::test
