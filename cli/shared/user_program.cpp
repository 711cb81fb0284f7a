#include "cli/shared/user_program.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/process.hpp"

namespace orrery::cli {

namespace fs = std::filesystem;

namespace {

/// Returns the path `name` in the Python package that contains this program, or in the package
/// beside the program in a build folder.
fs::path in_package(const fs::path& name) {
  const fs::path here = fs::path(sibling_program("orrery")).parent_path();
  for (const char* place : {"..", "../python/orrery"}) {
    if (is_file(here / place / name)) return fs::canonical(here / place) / name;
  }
  throw Error(
      ErrorKind::environment,
      fmt::format("expected Orrery's Python package with {} beside {}, found none: build the "
                  "target _core, or install the package",
                  name.string(), here.string()));
}

}  // namespace

fs::path programs_folder() {
  const fs::path attaches = in_package("programs/attach/sitecustomize.py");
  return fs::canonical(attaches.parent_path().parent_path());
}

fs::path native_sources_folder() {
  return in_package("native/live/group/member.hpp").parent_path().parent_path().parent_path();
}

std::string executable_named(const std::string& name) {
  const auto is_executable = [](const std::string& path) {
    return is_file(path) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return is_executable(name) ? name : "";
  const char* const variable = std::getenv("PATH");
  std::string paths = variable == nullptr ? "/usr/bin:/bin" : variable;
  paths += ':';
  for (std::size_t from = 0, to; (to = paths.find(':', from)) != std::string::npos; from = to + 1) {
    const std::string path = (fs::path(paths.substr(from, to - from)) / name).string();
    if (is_executable(path)) return path;
  }
  return "";
}

void set_variable(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void attach_through_path(const fs::path& programs) {
  const char* const old = std::getenv("PYTHONPATH");
  std::string path = (programs / "attach").string();
  if (old != nullptr && *old != '\0') path += std::string(":") + old;
  set_variable("PYTHONPATH", path);
}

StandardOutputAside::StandardOutputAside(bool wanted) {
  std::fflush(stdout);
  if (!wanted) return;
  saved_ = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

StandardOutputAside::~StandardOutputAside() {
  if (saved_ < 0) return;
  dup2(saved_, STDOUT_FILENO);
  close(saved_);
}

}  // namespace orrery::cli
