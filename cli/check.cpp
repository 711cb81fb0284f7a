// orrery check: every problem of a scenario with its place.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/run_options.hpp"
#include "core/error.hpp"

namespace orrery::cli {
namespace {

/// None where the text alone does not tell: with overrides, or if it cannot be read whole, which
/// loading reports better.
std::vector<Error> all_problems(const RunOptions& options) {
  if (!options.overrides.empty() || !std::filesystem::is_regular_file(options.file)) return {};
  std::ifstream in(options.file, std::ios::binary);
  if (!in) return {};
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return check_scenario(text, options.file);
}

int check(const RunOptions& options) {
  try {
    const LoadedScenario loaded = options.load();
    fmt::print("{}: ok: scenario '{}', hash {}\n", options.file, loaded.scenario.name(),
               scenario_hash(loaded.scenario));
    return 0;
  } catch (const Error& first) {
    std::vector<Error> problems = all_problems(options);
    if (problems.empty()) problems = {first};
    for (const Error& problem : problems) fmt::print(stderr, "{}\n", problem.what());
    fmt::print(stderr, "{}: {} problem{}\n", options.file, problems.size(),
               problems.size() == 1 ? "" : "s");
    return static_cast<int>(first.kind());
  }
}

}  // namespace

void add_check(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("check", "print every problem of a scenario");
  options->add_file(*command);
  options->add_overrides(*command);
  command->callback([options, &chosen] { chosen = [options] { return check(*options); }; });
}

}  // namespace orrery::cli
