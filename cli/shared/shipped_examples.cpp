#include "cli/shared/shipped_examples.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".yaml";

/// Returns the folder of examples of an installed package, or of a build.
std::optional<fs::path> folder_of_examples() {
  const fs::path programs = fs::path(sibling_program("orrery")).parent_path();
  for (const char* place : {"../examples", "../python/orrery/examples"}) {
    std::error_code missing;
    fs::path folder = fs::canonical(programs / place, missing);
    if (!missing) return folder;
  }
  return {};
}

/// Returns the value of the scenario's key `description`; without it, its first comment line.
std::string description_of(const fs::path& file) {
  constexpr std::string_view kKey = "description: ", kComment = "# ";
  std::string comment;
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(kKey)) return line.substr(kKey.size());
    if (comment.empty() && line.starts_with(kComment)) comment = line.substr(kComment.size());
  }
  return comment;
}

/// Returns the exception for a text that is neither a file nor the name of an example.
Error no_such_example(const std::string& given) {
  std::vector<std::string> names;
  for (Example& each : shipped_examples()) names.push_back(std::move(each.name));
  return {ErrorKind::bad_input,
          fmt::format("expected a file, or the name of a shipped example (orrery list examples), "
                      "found '{}'{}",
                      given, did_you_mean(given, names))};
}

}  // namespace

std::vector<Example> shipped_examples() {
  std::vector<Example> found;
  const auto folder = folder_of_examples();
  if (!folder) return found;
  for (const fs::directory_entry& each : fs::recursive_directory_iterator(*folder)) {
    if (each.path().extension() != kSuffix) continue;
    const std::string name = each.path().lexically_relative(*folder).string();
    found.push_back({name.substr(0, name.size() - kSuffix.size()), description_of(each.path())});
  }
  std::sort(found.begin(), found.end(),
            [](const Example& a, const Example& b) { return a.name < b.name; });
  return found;
}

std::string example_path(const std::string& given) {
  std::error_code failed;
  if (fs::exists(given, failed) || failed) return given;
  const auto folder = folder_of_examples();
  if (!folder || given.empty()) return given;
  for (const fs::path& file : {*folder / (given + std::string(kSuffix)), *folder / given}) {
    if (file.extension() == kSuffix && fs::is_regular_file(file, failed)) return file.string();
  }
  const fs::path path = given;
  if (path.is_absolute() || path.has_extension()) return given;
  throw no_such_example(given);
}

CLI::Option& or_example(CLI::Option& option) {
  return *option.transform([](std::string given) { return example_path(given); }, "", "");
}

}  // namespace orrery::cli
