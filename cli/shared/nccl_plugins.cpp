#include "cli/shared/nccl_plugins.hpp"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "cli/shared/user_program.hpp"
#include "core/process.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

/// Returns the path of a plugin: beside this program, or in lib/ of a build folder.
fs::path plugin_path(const std::string& file) {
  const fs::path programs = fs::path(sibling_program("orrery")).parent_path();
  const fs::path beside = programs / file;
  return fs::exists(beside) ? beside : programs.parent_path() / "lib" / file;
}

/// Lets the ranks' NCCL load a plugin. Returns the reason why it will not; empty: it will.
std::string offer_plugin(const char* variable, const std::string& file) {
  const char* const own = std::getenv(variable);
  if (own != nullptr && *own != '\0') {
    return fmt::format("expected {} unset, found '{}': the program has a plugin of its own",
                       variable, own);
  }
  const fs::path path = plugin_path(file);
  if (!fs::exists(path))
    return fmt::format("{}: expected the plugin, found no file", path.string());
  set_variable(variable, path.string());
  return {};
}

}  // namespace

NcclPlugins offer_nccl_plugins(const std::string& folder, double wait_s) {
  NcclPlugins plugins{.table = folder + "/collectives", .reports = folder + "/nccl"};
  std::error_code absent;
  fs::remove(plugins.reports, absent);  // the socket of an `orrery run` that was killed
  plugins.no_table = offer_plugin("NCCL_TUNER_PLUGIN", "liborrery_nccl_tuner.so");
  offer_plugin("NCCL_PROFILER_PLUGIN", "liborrery_nccl_profiler.so");
  set_variable("ORRERY_NCCL_TABLE", plugins.table);
  set_variable("ORRERY_NCCL_REPORTS", plugins.reports);
  set_variable("ORRERY_NCCL_WAIT_S", fmt::format("{}", wait_s));
  return plugins;
}

}  // namespace orrery::cli
