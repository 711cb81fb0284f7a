// How help looks: the terminal's width, one column of names and one of sentences, defaults, and
// examples that can be pasted. Called while the command line is declared, on one thread.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/FormatterFwd.hpp>

namespace orrery::cli {

/// Columns to write help in: COLUMNS, else those of the terminal, else 100; at least 40, at most
/// 100.
std::size_t help_width();

/// Wraps at words; `width` counts columns.
std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width);

/// Puts command lines to try above what the help of `command` ends with.
void add_examples(CLI::App& command, std::initializer_list<const char*> lines);

/// `orrery help [COMMAND]`: the same as --help.
void add_help(CLI::App& app, std::function<int()>& chosen);

}  // namespace orrery::cli
