// Versions of the log format, and the conversion of logs of the previous version. Every reader of a
// log (log_reader.hpp) converts each record after it was read, so that the code behind the reader
// knows the newest version only. Pure functions; thread-safe.
//
//   version  since        difference
//   1        2026-11-21   first version
//   2        2026-11-22   faults, collective tables and codecs as in scenarios; not converted
//   3        2026-11-26   the digests of policies' states cover their names and state versions
//   4        2026-11-26   samples by column, as they were read; large states are not digested after
//                         every call
//   5        2026-11-26   the hash of the log covers columns by their digests
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "traces/trace.pb.h"

namespace orrery {

/// Version of the log format that this program writes.
inline constexpr std::uint32_t kLogFormat = 5;
/// Oldest version that convert_record() converts.
inline constexpr std::uint32_t kOldestLogFormat = 2;

/// Returns the reason for which a log with this header cannot be read, with the expected versions,
/// the found version and the remedy; nothing if its version is kLogFormat or can be converted.
std::optional<std::string> log_format_problem(const LogHeader& header);

/// Converts a record of a log of version `format` to kLogFormat. `format` must be a version without
/// a log_format_problem(). The scenario of a header is converted by its keys in every version
/// (core/schema/file_format.hpp). Samples by row become the rows and
/// all columns of their table. A record of version 2 loses the digest of the policies' state (0),
/// because that digest cannot be compared with a present one. Throws bad_input for a sample of an
/// unknown origin and for a damaged key of a scenario.
void convert_record(LogRecord& record, std::uint32_t format);

/// Returns true if logs of the version have digests of the policies' states that can be compared
/// with present digests.
inline bool has_comparable_digests(std::uint32_t format) { return format >= 3; }

/// Returns true if the hash in the footer of logs of the version is that of LogHash, false if it is
/// the SHA-256 of all bytes before the footer.
inline bool has_column_digests(std::uint32_t format) { return format >= 5; }

}  // namespace orrery
