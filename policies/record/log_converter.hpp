// Conversion of a log file to the newest format of logs (log_format.hpp). Called by `orrery
// convert`. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "core/schema/file_format.hpp"

namespace orrery {

/// Result of a conversion.
struct ConvertedLog {
  FormatVersion from;       ///< format of the file that was read
  FormatVersion to;         ///< format of the file that was written
  std::uint64_t calls = 0;  ///< number of calls of the policies in it
};

/// Writes the log at `from`, converted to kLogFormat, to the file `to`, with the hash of the new
/// records in its footer. The file appears when it is complete; `to` may be the same file. Records
/// keep their order, and the header keeps the version of the program that recorded the run. A log
/// of a newer MINOR keeps its format and its unknown fields. Throws bad_input for a file that is no
/// log, is damaged or has a log_format_problem(), and an environment Error if `to` cannot be
/// written.
ConvertedLog convert_log(const std::string& from, const std::string& to);

}  // namespace orrery
