// Completion of the log of a run of jobs whose process was killed, so that the log can be replayed.
// Used by the command `cluster slurm`. One thread.
#pragma once

#include <cstdint>
#include <string>

namespace orrery {

/// Writes the complete calls of the log at `partial`, which has no footer, and a footer to a new
/// log at `log`. Drops a call that is cut short at the end. Returns the number of calls. Throws
/// bad_input if `partial` is no log of a run of jobs, has a footer or is damaged, and an
/// environment Error if `log` cannot be written.
std::uint64_t complete_log(const std::string& partial, const std::string& log);

}  // namespace orrery
