// Reader of the records of a log file. A truncated or damaged log, or one of another format, is
// refused with the place. Used by replay and by continuation from a log. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "traces/trace.pb.h"

namespace orrery {

/// Sequential reader of one log file.
class LogReader {
 public:
  /// Opens the file. Throws bad_input if it cannot be read.
  explicit LogReader(const std::string& path);
  ~LogReader() { std::fclose(stream_); }
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  /// Reads the next record into `record` and its bytes into bytes(). Returns false at the end of
  /// the file.
  bool next(LogRecord& record);
  /// Returns the bytes of the newest record.
  const std::string& bytes() const { return bytes_; }

  /// Throws bad_input about the file at the current position.
  [[noreturn]] void refuse_log(const std::string& why) const;
  /// Throws bad_input about the newest record, which was read but is impossible.
  [[noreturn]] void refuse_last(const std::string& why) const;

 private:
  std::optional<std::uint64_t> read_length();

  std::string path_, bytes_;
  std::FILE* stream_;
  std::uint64_t number_ = 0, offset_ = 0, begin_ = 0;
};

/// Returns the first record. Throws bad_input on a file that is no log, or of another format.
LogHeader read_header(LogReader& log);

}  // namespace orrery
