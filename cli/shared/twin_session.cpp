#include "cli/shared/twin_session.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "cli/shared/output_file.hpp"
#include "core/error.hpp"

namespace orrery::cli {

DecisionTimes times_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&seconds](double share) {
    return 1e3 * seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  return {at(0.5), at(0.99), at(1)};
}

void write_tables(const std::string& out, const std::string& forecasts, const std::string& score) {
  if (out.empty()) return;
  const std::filesystem::path folder(out);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot make the folder {}: {}", out, failed.message()));
  }
  write_file((folder / "forecasts.csv").string(), forecasts);
  write_file((folder / "score.csv").string(), score);
}

}  // namespace orrery::cli
