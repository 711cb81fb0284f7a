// Completion of commands, options and their values by a shell's Tab key. Generated from the
// declared command line, so that the completion is always up to date. Called by main() only.
#pragma once

#include <functional>
#include <string>

#include <CLI/App.hpp>

namespace orrery::cli {

/// Returns the script that makes a shell complete the command line. `shell`: bash, fish, or any
/// other text for zsh.
std::string completion_script(const CLI::App& app, const std::string& shell);

/// Adds the subcommand `completion`. Call after all other add_*() functions.
void add_completion(CLI::App& app, std::function<int()>& chosen);

}  // namespace orrery::cli
