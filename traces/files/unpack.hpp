// Stream of the bytes of a file, which unpacks gzip and xz while it reads. For readers of large
// traces. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace orrery {

/// Open file whose unpacked bytes are read in order.
class UnpackedFile {
 public:
  /// Opens the file. Throws bad_input with the file as its place if it cannot be opened or is a
  /// folder.
  explicit UnpackedFile(const std::string& path);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  /// Reads up to `size` bytes and returns their number, which is less than `size` only at the end
  /// of the file, and 0 after it. Throws bad_input if the file is damaged or truncated.
  std::size_t read(char* into, std::size_t size);
  /// Replaces `into` by the rest of the file, which may be empty, and reuses its memory. Throws
  /// bad_input above `most` bytes, and as read().
  void read_rest(std::string& into, std::size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery
