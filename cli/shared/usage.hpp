// Messages about an invalid command line: one plain sentence with the expected and the found text,
// and the nearest option or subcommand. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>

namespace orrery::cli {

/// Returns the message. `arguments` without the program's name; `error`: the parser's error.
std::string explain_usage(const CLI::App& app, const std::vector<std::string>& arguments,
                          const CLI::ParseError& error);

/// Returns the command with this name or this former name; null if none exists.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

/// Returns the message for an unknown command: "unknown command 'x'; did you mean 'y'? ...".
std::string unknown_command(const CLI::App& app, const std::string& name);

/// Restricts the values of an option to `words`, which the help and the message about another value
/// show. Returns the option.
CLI::Option& one_of(CLI::Option& option, const std::vector<std::string>& words);
/// Returns the choices given to one_of(); empty for another option, and if a choice has a capital
/// letter.
std::vector<std::string> choices_of(const CLI::Option& option);

/// Restricts the values of an option to the whole numbers from `least` to `most`. Returns the
/// option.
CLI::Option& whole_number(CLI::Option& option, std::int64_t least, std::int64_t most);
/// Restricts the values of an option to the numbers from `least` to `most`; NaN is refused. Returns
/// the option.
CLI::Option& number(CLI::Option& option, double least, double most);

}  // namespace orrery::cli
