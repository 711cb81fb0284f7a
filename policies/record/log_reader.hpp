// Reader of the records of a log file. Converts a log of an earlier format (log_format.hpp).
// Refuses a truncated or damaged log, and a log of an unknown format, with the number and the byte
// of the record. Used by replay and by runs that continue from a log. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "policies/record/log_format.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Sequential reader of one log file. Owns the open file.
class LogReader {
 public:
  /// Opens the file. Throws bad_input if it cannot be opened.
  explicit LogReader(const std::string& path);
  ~LogReader() { std::fclose(stream_); }
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  /// Reads the next record into `record`, converted to kLogFormat, and its bytes as stored into
  /// bytes(). Returns false at the end of the file, and leaves `record` unchanged. Throws bad_input
  /// if the record is truncated, damaged or longer than 256 MiB, or if the record is a header with
  /// a log_format_problem().
  bool next(LogRecord& record);
  /// Reads the next record as next() does. Returns false also if the log ends within the record,
  /// whose run still writes it: a later call reads the record from its begin.
  bool next_written(LogRecord& record);
  /// Returns the bytes of the newest record, without its length; empty before the first. The
  /// reference is valid until next().
  const std::string& bytes() const { return bytes_; }
  /// Returns the version of the format in which the file is stored; kLogFormat before the header
  /// was read.
  FormatVersion format() const { return format_; }

  /// Throws bad_input about the file at the current position; `why` follows the path, for example
  /// "is cut short".
  [[noreturn]] void refuse_log(const std::string& why) const;
  /// Throws bad_input about the newest record, which was read but is impossible. Call after a
  /// next() that returned true.
  [[noreturn]] void refuse_last(const std::string& why) const;

 private:
  std::optional<std::uint64_t> read_length();
  /// Returns true if the file has all bytes of the record at the current position.
  bool has_whole_record();
  /// Converts the newest record, and reads the version of the file from a header.
  void convert_newest(LogRecord& record);

  std::string path_, bytes_;
  std::FILE* stream_;
  FormatVersion format_ = kLogFormat;
  /// number of records read, bytes read, and first byte of the newest record
  std::uint64_t number_ = 0, offset_ = 0, begin_ = 0;
};

/// Reads and returns the header, which is the first record; call before any next(). Throws
/// bad_input for a file that is empty, is not a log or has a format that cannot be converted.
LogHeader read_header(LogReader& log);

}  // namespace orrery
