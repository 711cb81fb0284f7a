#include "cli/shared/usage.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"

namespace orrery::cli {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// Returns `text` as a number; nothing if a part of it is not of the number.
template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

/// Restricts an option to a range. `kind` names the numbers in messages; NaN is outside every
/// range.
template <class Number>
CLI::Option& in_range(CLI::Option& option, const char* kind, Number least, Number most) {
  return *option.check(CLI::Validator(
      [kind, least, most](std::string& text) {
        const std::optional<Number> value = parsed<Number>(text);
        if (value && *value >= least && *value <= most) return std::string();
        return fmt::format("expected {} from {} to {}, got '{}'", kind, least, most, text);
      },
      ""));
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// Hint for an option that users expect in a command that lacks it.
struct Elsewhere {
  std::string_view command, option, instead;
};
constexpr Elsewhere kElsewhere[] = {
    {"live", "--timeline",
     "live mode writes no timeline; `orrery simulate FILE --timeline OUT.pftrace` draws the same "
     "scenario"},
    {"simulate", "--cluster",
     "--machine takes a profile of `orrery calibrate`; a topology is set in the scenario"},
    {"compare", "--cluster", "--machine takes a profile of `orrery calibrate`"},
    {"jobs", "--gpu-slices", "slices of GPUs are a key; write --set gpu_slices=7"},
};

/// Returns the message for an unknown option: "unknown option '--x'; did you mean '--y'?".
std::string no_such_option(const std::string& command, const std::string& option,
                           const std::vector<std::string>& known) {
  for (const Elsewhere& each : kElsewhere) {
    if (each.command == command && each.option == option) {
      return fmt::format("unknown option '{}': {}", option, each.instead);
    }
  }
  return fmt::format("unknown option '{}'{}", option, did_you_mean(option, known));
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
      return no_such_option(command.get_name(), name, known);
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
  if (find_command(app, *word) == nullptr) return unknown_command(app, *word);
  const CLI::App* command = app.get_subcommand(*word);
  std::string name = *word;
  const auto kind = std::find_if_not(word + 1, arguments.end(), is_option);
  const std::vector<std::string> kinds = command_names(*command);
  std::string hint;
  if (kind != arguments.end() && !kinds.empty()) {
    const auto own = command->get_options(
        [](const CLI::Option* option) { return option->get_positional(); });
    if (find_command(*command, *kind) != nullptr) {
      command = command->get_subcommand(*kind);
      name += " " + *kind;
    } else if (own.empty()) {
      return fmt::format("orrery {}: unknown kind '{}'{}; the kinds are {}", name, *kind,
                         did_you_mean(*kind, kinds), fmt::join(kinds, ", "));
    } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
      hint = did_you_mean(*kind, kinds);
      if (!hint.empty()) hint = fmt::format("; '{}' is no kind{}", *kind, hint);
    }
  }
  const auto found = unknown_option(*command, {word + 1, arguments.end()});
  return fmt::format("orrery {}: {}", name, found.value_or(error.what() + hint));
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const CLI::App* each) { return each->check_name(name); });
  return found == commands.end() ? nullptr : *found;
}

std::string unknown_command(const CLI::App& app, const std::string& name) {
  const std::vector<std::string> commands = command_names(app);
  return fmt::format("unknown command '{}'{}; the commands are {}", name,
                     did_you_mean(name, commands), fmt::join(commands, ", "));
}

CLI::Option& one_of(CLI::Option& option, const std::vector<std::string>& words) {
  const CLI::Validator check(
      [words](std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        return fmt::format("expected {}, got '{}'{}", fmt::join(words, " or "), text,
                           did_you_mean(text, words));
      },
      "");
  return *option.type_name(fmt::format("{}", fmt::join(words, "|")))->check(check);
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (std::any_of(text.begin(), text.end(), capital)) return {};  // a placeholder such as FILE
  std::vector<std::string> words;
  std::istringstream parts(text);
  for (std::string word; std::getline(parts, word, '|');) words.push_back(word);
  return words;
}

CLI::Option& whole_number(CLI::Option& option, std::int64_t least, std::int64_t most) {
  return in_range(option, "a whole number", least, most);
}

CLI::Option& number(CLI::Option& option, double least, double most) {
  return in_range(option, "a number", least, most);
}

}  // namespace orrery::cli
