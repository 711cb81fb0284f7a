// Tests of what a path names, for paths that come from users.
#pragma once

#include <filesystem>
#include <system_error>

namespace orrery {

/// Returns whether `path` names a regular file that can be looked at. Never throws: a name that is
/// too long or lies in a closed folder names no file, and opening it reports why.
inline bool is_file(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path, unknown);
}

/// Returns whether `path` names a folder. Never throws, as is_file().
inline bool is_folder(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

}  // namespace orrery
