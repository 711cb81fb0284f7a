// Location of the test data outside the repository. For tests only.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace orrery::testing {

inline constexpr const char* kNoData = "data not found (set ORRERY_DATA or provide ../shared/data)";

/// A folder of the test data, or "" where it is absent.
inline std::string data_folder(const std::string& name) {
  const char* const given = std::getenv("ORRERY_DATA");
  const std::filesystem::path root = given != nullptr ? given : ORRERY_SOURCE_DIR "/../shared/data";
  const std::filesystem::path folder = root / name;
  return std::filesystem::is_directory(folder) ? folder.string() : std::string();
}

}  // namespace orrery::testing
