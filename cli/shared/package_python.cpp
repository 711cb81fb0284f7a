#include "cli/shared/package_python.hpp"

#include <cstdlib>
#include <filesystem>

#include "core/process.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

std::string package_folder() {
  const fs::path program(sibling_program("orrery"));
  const fs::path bin = program.parent_path();
  if (fs::exists(bin.parent_path() / "_policy_host.py")) return bin.parent_path().parent_path();
  const fs::path built = bin.parent_path() / "python";
  return fs::exists(built / "orrery" / "_policy_host.py") ? built.string() : std::string();
}

}  // namespace

PackagePython package_python() {
  const char* const chosen = std::getenv("ORRERY_PYTHON");
  const fs::path built = fs::path(sibling_program("orrery")).parent_path() / "../venv/bin/python";
  std::string python = "python3";
  if (chosen != nullptr && *chosen != '\0') {
    python = chosen;
  } else if (fs::exists(built)) {
    python = built;
  }
  return {.interpreter = python, .folder = package_folder()};
}

}  // namespace orrery::cli
