// A text file that a command writes whole or not at all: beside its name first, then renamed onto
// it, so that what was there stays until the new is complete. What is no ordinary file (a
// terminal, /dev/stdout) is written in place. One thread.
#pragma once

#include <string>

namespace orrery::cli {

class OutputFile {
 public:
  /// Throws an environment Error if nothing can be written there: before the work, not after it.
  explicit OutputFile(std::string path);
  ~OutputFile();  ///< takes away what was not finished
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Once. Throws an environment Error.
  void finish(const std::string& text);

 private:
  [[noreturn]] void fail() const;

  std::string path_, beside_;
};

/// The same at once.
void write_file(const std::string& path, const std::string& text);

}  // namespace orrery::cli
