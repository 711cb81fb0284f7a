// A file as a stream of bytes, unpacked on the way where it is packed with gzip or xz. For readers
// of large traces. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace orrery {

class UnpackedFile {
 public:
  /// Throws bad_input with the file as its place if it cannot be opened or is a folder.
  explicit UnpackedFile(const std::string& path);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  /// Reads up to `size` bytes; fewer only at the end. Throws bad_input if the file is damaged.
  std::size_t read(char* into, std::size_t size);
  /// All that is left; throws bad_input above `most` bytes. `into` keeps its memory.
  void read_rest(std::string& into, std::size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery
