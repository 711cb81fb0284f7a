// Temporary folder of a program.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {

/// Folder for temporary files that belongs to one object: the constructor creates the folder, the
/// destructor removes it with all files. For example, TemporaryFolder("orrery-vary") creates
/// /tmp/orrery-vary-x3Gk2q. Not copyable; single-threaded.
class TemporaryFolder {
 public:
  /// Creates the folder, readable by this user alone. Throws an environment Error if it cannot be
  /// created, and std::filesystem::filesystem_error if TMPDIR names no folder.
  explicit TemporaryFolder(const std::string& name) {
    std::string made = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
    if (mkdtemp(made.data()) == nullptr) {
      throw Error(ErrorKind::environment,
                  fmt::format("expected a folder for temporary files, cannot make {}; check the "
                              "folder's permissions and the free space", made));
    }
    path_ = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Returns the path of a file in the folder.
  std::string path_of(const std::string& file) const { return (path_ / file).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace orrery
