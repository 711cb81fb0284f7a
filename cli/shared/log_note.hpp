// Note about a recorded log of a newer format. Called by the commands that read logs. Thread-safe.
#pragma once

#include <string>

#include "traces/trace.pb.h"

namespace orrery::cli {

/// Writes a line to stderr if the log `file` with this header may have fields that this program
/// does not know.
void print_log_note(const std::string& file, const LogHeader& header);

}  // namespace orrery::cli
