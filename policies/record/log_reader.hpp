// The records of a log file, one after the other: what is cut short, damaged or of another
// format is refused with its place. Used by replay and by what goes on from a log. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "traces/trace.pb.h"

namespace orrery {

class LogReader {
 public:
  /// Throws bad_input if the file cannot be read.
  explicit LogReader(const std::string& path);
  ~LogReader() { std::fclose(stream_); }
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  /// The next record into `record` and its bytes into bytes(); false at the end of the file.
  bool next(LogRecord& record);
  const std::string& bytes() const { return bytes_; }

  [[noreturn]] void refuse(const std::string& why) const;
  /// The same for a record that was read but makes no sense.
  [[noreturn]] void refuse_last(const std::string& why) const;

 private:
  std::optional<std::uint64_t> read_length();

  std::string path_, bytes_;
  std::FILE* stream_;
  std::uint64_t number_ = 0, offset_ = 0, begin_ = 0;
};

/// The first record. Throws bad_input on what is no log, or one of another format.
LogHeader read_header(LogReader& log);

}  // namespace orrery
