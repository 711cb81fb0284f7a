// What to say when the command line makes no sense: one plain sentence, with the option or the
// subcommand that was probably meant. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>

namespace orrery::cli {

/// `arguments` without the program's name; `error` is what the parser made of them.
std::string explain_usage(const CLI::App& app, const std::vector<std::string>& arguments,
                          const CLI::ParseError& error);

}  // namespace orrery::cli
