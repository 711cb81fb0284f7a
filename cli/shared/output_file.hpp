// Text file that a command writes completely or not at all: the file is written under a temporary
// name and then renamed, so that an existing file stays until the new file is complete. A symbolic
// link and a path that is not a regular file (a terminal, /dev/stdout) are written in place. One
// thread.
#pragma once

#include <string>

namespace orrery::cli {

/// Text file that appears under its name only when it is complete.
class OutputFile {
 public:
  /// Creates the temporary file, so that an error comes before the command's work. Throws an
  /// environment Error if `path` cannot be written.
  explicit OutputFile(std::string path);
  ~OutputFile();  ///< deletes an unfinished file
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes the text and gives the file its name, in place of an existing file. Call once. Throws
  /// an environment Error if the text cannot be written; an existing file then stays, but a file
  /// written in place may be incomplete.
  void write_and_rename(const std::string& text);

 private:
  [[noreturn]] void fail_writing() const;

  std::string path_, beside_;
};

/// Writes a text file as OutputFile does. Throws an environment Error if the file cannot be
/// written.
void write_file(const std::string& path, const std::string& text);

}  // namespace orrery::cli
