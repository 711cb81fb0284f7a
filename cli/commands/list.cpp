// orrery list: prints the names that a scenario or the command line can use.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "policies/run/known_names.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kExamples = "examples";

std::vector<KnownName> names_of(const std::string& kind) {
  if (kind != kExamples) return known_names(kind);
  std::vector<KnownName> names;
  for (const Example& each : shipped_examples()) names.push_back({each.name, each.about});
  return names;
}

int list(const std::string& kind) {
  const std::vector<KnownName> names = names_of(kind);
  std::size_t width = 0;
  for (const KnownName& each : names) width = std::max(width, each.name.size());
  for (const KnownName& each : names) fmt::print("{:<{}}  {}\n", each.name, width, each.about);
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Action& chosen) {
  const auto kind = std::make_shared<std::string>();
  std::vector<std::string> kinds = kinds_of_names();
  kinds.emplace_back(kExamples);
  CLI::App* command = app.add_subcommand(
      "list", "models, clusters, GPUs, stacks, policies, prices and shipped examples by name");
  one_of(*command->add_option("KIND", *kind,
                              fmt::format("kind of names: {}", fmt::join(kinds, ", "))),
         kinds)
      .required();
  add_examples(*command, {"orrery list models"});
  command->callback([kind, &chosen] { chosen = [kind] { return list(*kind); }; });
}

}  // namespace orrery::cli
