#include "cli/usage.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::cli {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

bool is_option(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && !std::isdigit(argument[1]);
}

std::optional<std::string> unknown_option(const CLI::App& command,
                                          const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = option_names(command);
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (!is_option(argument)) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return fmt::format("unknown option '{}'{}", name, did_you_mean(name, known));
    }
  }
  return std::nullopt;
}

}  // namespace

std::string explain_usage(const CLI::App& app, const std::vector<std::string>& arguments,
                          const CLI::ParseError& error) {
  const auto word = std::find_if_not(arguments.begin(), arguments.end(), is_option);
  if (word == arguments.end()) {
    return unknown_option(app, arguments).value_or("a command is missing; see orrery --help");
  }
  const std::vector<std::string> commands = command_names(app);
  if (std::find(commands.begin(), commands.end(), *word) == commands.end()) {
    return fmt::format("unknown command '{}'{}; the commands are {}", *word,
                       did_you_mean(*word, commands), fmt::join(commands, ", "));
  }
  const CLI::App* command = app.get_subcommand(*word);
  std::string name = *word;
  const auto kind = std::find_if_not(word + 1, arguments.end(), is_option);
  const std::vector<std::string> kinds = command_names(*command);
  if (kind != arguments.end() && !kinds.empty()) {
    if (std::find(kinds.begin(), kinds.end(), *kind) == kinds.end()) {
      return fmt::format("orrery {}: unknown kind '{}'{}; there is {}", name, *kind,
                         did_you_mean(*kind, kinds), fmt::join(kinds, ", "));
    }
    command = command->get_subcommand(*kind);
    name += " " + *kind;
  }
  const auto found = unknown_option(*command, {word + 1, arguments.end()});
  return fmt::format("orrery {}: {}", name, found.value_or(error.what()));
}

}  // namespace orrery::cli
