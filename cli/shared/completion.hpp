// Completion of commands, options and their values by a shell's Tab key. Generated from the
// declared command line, so that the completion is always up to date. Called by main() only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <CLI/App.hpp>

namespace orrery::cli {

/// Shells with a script of completions.
enum class Shell : std::uint8_t { bash, zsh, fish };
constexpr std::array<std::string_view, 3> names_of(Shell) { return {"bash", "zsh", "fish"}; }

/// Returns the script that makes a shell complete the command line.
std::string completion_script(const CLI::App& app, Shell shell);

/// Adds the subcommand `completion`. Call after all other add_*() functions.
void add_completion(CLI::App& app, std::function<int()>& chosen);

}  // namespace orrery::cli
