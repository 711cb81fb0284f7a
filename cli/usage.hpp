// What to say when the command line makes no sense: one plain sentence of what was expected and
// what came, with the option or the subcommand that was probably meant. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>

namespace orrery::cli {

/// `arguments` without the program's name; `error` is what the parser made of them.
std::string explain_usage(const CLI::App& app, const std::vector<std::string>& arguments,
                          const CLI::ParseError& error);

/// The command of that name, also of the one it had before; null if there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

/// "unknown command 'x'; did you mean 'y'? ..."
std::string unknown_command(const CLI::App& app, const std::string& name);

/// Declares an option that takes one of `words`; help shows them, and so does a wrong one.
CLI::Option& one_of(CLI::Option& option, const std::vector<std::string>& words);
/// What one_of() was given; empty for another option.
std::vector<std::string> choices_of(const CLI::Option& option);

/// Declares an option that takes a whole number, or any number, of a range; both ends allowed.
CLI::Option& whole_number(CLI::Option& option, std::int64_t least, std::int64_t most);
CLI::Option& number(CLI::Option& option, double least, double most);

}  // namespace orrery::cli
