// orrery check: every problem of a scenario with its place.
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/run_options.hpp"
#include "core/error.hpp"

namespace orrery::cli {
namespace {

/// Loading reports an unreadable file better than a stream does, so such a file passes as empty.
std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int check(const RunOptions& options) {
  try {
    const LoadedScenario loaded = options.load();
    fmt::print("{}: ok: scenario '{}', hash {}\n", options.file, loaded.scenario.name(),
               scenario_hash(loaded.scenario));
    return 0;
  } catch (const Error& first) {
    std::vector<Error> problems = check_scenario(text_of(options.file), options.file);
    if (problems.empty() || !options.overrides.empty()) problems = {first};
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
