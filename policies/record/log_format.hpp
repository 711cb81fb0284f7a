// Versions of the log format, and the conversion of logs of earlier versions. Every reader of a
// log (log_reader.hpp) converts each record after it was read, so that the code behind the reader
// knows the newest version only. A version is MAJOR.MINOR as in semantic versioning: MAJOR rises
// with a change that an earlier reader would misread, MINOR with added fields, which an earlier
// reader skips. Pure functions; thread-safe.
//
//   version  since        difference
//   1.0      2026-11-21   first version
//   2.0      2026-11-22   faults, collective tables and codecs as in scenarios; not converted
//   3.0      2026-11-26   the digests of policies' states cover their names and state versions
//   4.0      2026-11-26   samples by column, as they were read; large states are not digested after
//                         every call
//   5.0      2026-11-26   the hash of the log covers columns by their digests
//   5.1      2026-11-29   parts of GPUs of jobs, shared storage of a cluster
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/schema/file_format.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Version of the log format that this program writes.
inline constexpr FormatVersion kLogFormat{5, 1};
/// Oldest version that convert_record() converts.
inline constexpr FormatVersion kOldestLogFormat{2, 0};

/// Returns the version that a header states. Its field `format` is MAJOR + 65,536 MINOR, so that
/// the field of a version N.0 is N.
FormatVersion log_format(const LogHeader& header);
/// Sets the version that a header states.
void set_log_format(LogHeader& header, FormatVersion version);

/// Returns the reason for which a log with this header cannot be read, with the expected versions,
/// the found version and the remedy; nothing if its version is kLogFormat, can be converted, or
/// differs from kLogFormat by its MINOR only.
std::optional<std::string> log_format_problem(const LogHeader& header);
/// Returns a sentence without its subject, for example "has log format 5.1, ...", if a log with
/// this header may have fields that this program does not know; nothing for any other log.
std::optional<std::string> newer_log_note(const LogHeader& header);

/// Converts a record of a log of version `format` to kLogFormat. `format` must be a version without
/// a log_format_problem(); a record of a newer MINOR keeps its version and its unknown fields. The
/// scenario of a header is converted by its keys in every version (core/schema/file_format.hpp).
/// Samples by row become the rows and all columns of their table. A record of version 2.0 loses the
/// digest of the policies' state (0), because that digest cannot be compared with a present one.
/// Throws bad_input for a sample of an unknown origin and for a damaged key of a scenario.
void convert_record(LogRecord& record, FormatVersion format);

/// Returns true if logs of the version have digests of the policies' states that can be compared
/// with present digests.
inline bool has_comparable_digests(FormatVersion format) { return format.major >= 3; }

/// Returns true if the hash in the footer of logs of the version is that of LogHash, false if it is
/// the SHA-256 of all bytes before the footer.
inline bool has_column_digests(FormatVersion format) { return format.major >= 5; }

}  // namespace orrery
