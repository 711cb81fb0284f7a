// Reader of the records of a log file. Refuses a truncated or damaged log, and a log of another
// format, with the number and the byte of the record. Used by replay and by runs that continue from
// a log. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

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

  /// Reads the next record into `record` and its bytes into bytes(). Returns false at the end of
  /// the file, and leaves `record` unchanged. Throws bad_input if the record is truncated, damaged
  /// or longer than 256 MiB.
  bool next(LogRecord& record);
  /// Returns the bytes of the newest record, without its length; empty before the first. The
  /// reference is valid until next().
  const std::string& bytes() const { return bytes_; }

  /// Throws bad_input about the file at the current position; `why` follows the path, for example
  /// "is cut short".
  [[noreturn]] void refuse_log(const std::string& why) const;
  /// Throws bad_input about the newest record, which was read but is impossible. Call after a
  /// next() that returned true.
  [[noreturn]] void refuse_last(const std::string& why) const;

 private:
  std::optional<std::uint64_t> read_length();

  std::string path_, bytes_;
  std::FILE* stream_;
  /// number of records read, bytes read, and first byte of the newest record
  std::uint64_t number_ = 0, offset_ = 0, begin_ = 0;
};

/// Reads and returns the header, which is the first record; call before any next(). Throws
/// bad_input for a file that is empty, is not a log or has another format.
LogHeader read_header(LogReader& log);

}  // namespace orrery
