// Layout of help texts: the terminal's width, one column of names and one of sentences, defaults,
// and examples to paste. Called while the command line is declared, on one thread.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/FormatterFwd.hpp>

namespace orrery::cli {

/// Returns the number of columns for help texts: COLUMNS, else the terminal's width, else 100; at
/// least 40 and at most 100.
std::size_t help_width();

/// Returns the formatter of help texts, which wraps at words. `width`: columns of a line.
std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width);

/// Returns `text` in lines of at most `width` columns, all lines after the first with `indent`.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

/// Adds example command lines to the end of the help of `command`, before its footer and earlier
/// examples.
void add_examples(CLI::App& command, std::initializer_list<const char*> lines);

/// Adds the subcommand `help`: `orrery help COMMAND` prints the help of a command, like --help.
void add_help(CLI::App& app, std::function<int()>& chosen);

}  // namespace orrery::cli
